package org.thalweg.agent;

/** A pattern of names: {@code *} matches any characters but the separator, {@code **} any, {@code ?} one
 * character but the separator. */
final class Pattern {
    /** No separator: {@code *} matches any characters. */
    static final int NONE = -1;

    private final String text;
    private final int[] parts;
    private final int separator;
    /** The fixed text at the beginning of the names. */
    private final String prefix;
    /** Whether the pattern tests only the beginning of a name. */
    private final boolean isPrefix;

    Pattern(String text, int separator) {
        this.text = text;
        this.separator = separator;
        parts = points(text);
        int star = text.indexOf('*');
        int one = text.indexOf('?');
        int first = star < 0 ? one : one < 0 ? star : Math.min(star, one);
        prefix = first < 0 ? text : text.substring(0, first);
        isPrefix = separator == NONE && star >= 0 && star == first && star == text.length() - 1;
    }

    /** The characters of a text. While a program starts, names of its classes are matched by code that is not
     * compiled yet and hence slow, so this class uses no Java stream, and most patterns test only the
     * beginning of a name. */
    private static int[] points(String text) {
        int[] points = new int[text.codePointCount(0, text.length())];
        for (int n = 0, at = 0; n < points.length; n++) {
            points[n] = text.codePointAt(at);
            at += Character.charCount(points[n]);
        }
        return points;
    }

    boolean matches(String name) {
        if (!name.startsWith(prefix)) {
            return false;
        }
        if (isPrefix) {
            return true;
        }
        boolean[] here = new boolean[parts.length + 1];
        here[0] = true;
        skipStars(here);
        for (int c : points(name)) {
            boolean[] next = new boolean[parts.length + 1];
            for (int n = 0; n < parts.length; n++) {
                if (!here[n]) {
                    continue;
                }
                if (parts[n] == '*') {
                    boolean any = n > 0 && parts[n - 1] == '*' || n + 1 < parts.length && parts[n + 1] == '*';
                    next[n] |= any || c != separator;
                } else if (parts[n] == c || parts[n] == '?' && c != separator) {
                    next[n + 1] = true;
                }
            }
            skipStars(next);
            here = next;
        }
        return here[parts.length];
    }

    /** The part of a pattern of operations for their class: all before the last dot; null if there is no dot. */
    Pattern ofClass() {
        int dot = text.lastIndexOf('.');
        return dot <= 0 ? null : new Pattern(text.substring(0, dot), separator);
    }

    private void skipStars(boolean[] reached) {
        for (int n = 0; n < parts.length; n++) {
            if (reached[n] && parts[n] == '*') {
                reached[n + 1] = true;
            }
        }
    }
}
