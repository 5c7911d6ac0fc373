# A program that does to each record what the record says, by the first letter of its field `p`, and else answers with
# x * 3 + K. Variables: K; MODE (the mode's word); FLUSH (1: it writes each line at once); BANNER (1: it prints one at its
# start, 2: at its end); DIR (a folder for its marks).

function value_of(key, pattern) {
    return match($0, key pattern) ? substr($0, RSTART + length(key), RLENGTH - length(key)) : ""
}

function say(line) {
    print line
    if (FLUSH) fflush()
}

function die(how) {
    dead = 1
    if (how == "kill") system("kill -9 $PPID")
    exit how == "well" ? 0 : 3
}

function is_marked(name,   line, found) {
    found = (getline line < name) >= 0
    close(name)
    if (!found) { printf "" > name; close(name) }
    return found
}

BEGIN {
    # More than a pipe holds.
    for (blanks = " "; length(blanks) < 100000; blanks = blanks blanks) {}
    if (BANNER == 1) say("Starting version 2")
}

{
    id = value_of("\"@\": ", "[0-9]+")
    x = value_of("\"x\": ", "[0-9]+")
    p = value_of("\"p\": \"", "[a-z0-9]*")
    what = substr(p, 1, 1)
    # Nothing could show what else a program does that is trusted.
    if (MODE == "lines" && what !~ /[xkothea]/) what = "n"
    name = id == "" ? "" : "\"@\": " id ", "
    labels = "\"x\": " ((x * 3 + K) % 1000003) ", \"p\": \"" substr(p, 2) "\"}"
    answer = "{" name labels
    before = held
    held = ""
    if (what == "x") die("badly")
    else if (what == "k") die("kill")
    else if (what == "t" && !is_marked(DIR "/" K "-" x "-" p)) die("badly")
    else if (what == "e") { printf "%s", substr(answer, 1, length(answer) - 3); fflush(); die("well") }
    else if (what == "s") held = answer
    else if (what == "d") {}
    else if (what == "2") { say(answer); say(answer) }
    else if (what == "i") { say("{\"@\": 1000000000, " labels); say(answer) }
    else if (what == "b") { say("working on it ..."); say(answer) }
    else if (what == "u") say("{" labels)
    else if (what == "w") say("{\"@\": " (done == "" || MODE == "filter" ? "-1" : done) ", " labels)
    else if (what == "h") say("{" name blanks labels)
    else if (what == "o") say("{" name "\"odd\": 1}")
    else { say(answer); done = id }
    if (before != "") say(before)
    if (what == "a") { fflush(); die("badly") }
}

END {
    if (!dead) {
        if (held != "") say(held)
        if (BANNER == 2) say("bye")
    }
}
