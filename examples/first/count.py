"""A box in Python: a line of JSON is a record in, another one is the record out, under the same number "@"."""

import json
import sys

for line in sys.stdin:
    record = json.loads(line)
    record["<words>"] = len(record["line"].split())
    print(json.dumps(record))
