"""Translates the lines of stdin: python client.py http://127.0.0.1:5000 en fr [KEY] < input.txt"""

import json
import sys
import urllib.request

url, source, target, *key = sys.argv[1:]
lines = sys.stdin.read().split("\n")[:-1]
fields = {"q": lines, "source": source, "target": target, "api_key": key[0] if key else ""}
request = urllib.request.Request(f"{url}/translate", json.dumps(fields).encode(), {"Content-Type": "application/json"})
with urllib.request.urlopen(request) as answer:
    print("\n".join(json.load(answer)["translatedText"]))
