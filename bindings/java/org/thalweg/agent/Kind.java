package org.thalweg.agent;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicInteger;

/** A kind of event, as described by a class that {@code thalweg kinds} made. */
public final class Kind {
    private static final AtomicInteger COUNT = new AtomicInteger();

    final String name;
    final String doc;
    final long hash;
    /** The number of words of the whole event; 0 if texts follow. */
    final int eventWords;
    final Field[] fields;
    /** The index in the writers' tables. */
    final int index = COUNT.getAndIncrement();

    public Kind(String name, String doc, long hash, int eventWords, Field... fields) {
        this.name = name;
        this.doc = doc;
        this.hash = hash;
        this.eventWords = eventWords;
        this.fields = fields;
    }

    /** A text in the encoding of events. */
    public static byte[] bytes(String text) {
        return (text == null ? "null" : text).getBytes(StandardCharsets.UTF_8);
    }

    /** A field. */
    public static final class Field {
        final int type;
        final String name;
        final String unit;
        final String doc;
        final long[] values;
        final String[] choices;

        public Field(int type, String name, String unit, String doc, long[] values, String[] choices) {
            this.type = type;
            this.name = name;
            this.unit = unit;
            this.doc = doc;
            this.values = values;
            this.choices = choices;
        }
    }

    /** The catalog's record that describes the kind. */
    byte[] described(int id) {
        Record record = new Record();
        record.u32(id).u64(hash).text(name, 1024).text(doc, 2048).u32(fields.length);
        for (Field field : fields) {
            record.u32(field.type).text(field.name, 256).text(field.unit, 256).text(field.doc, 1024).u32(field.values.length);
            for (int n = 0; n < field.values.length; n++) {
                record.u64(field.values[n]).text(field.choices[n], 256);
            }
        }
        return record.sealed(org.thalweg.Layout.CATALOG_KIND);
    }
}
