"""A small document of each format, with what is hard in it."""

TXT = """\ufeffA walk in the park

On Sunday two men and a woman walked through the park, where children were
playing with a ball.  Nobody saw
the dog.

- First item: 3 apples
- Second item
    1. Nested item

Call +49 30 1234 or write to me@example.org.\r
Last line without an end"""

MARKDOWN = """---
title: "Not translated"
---
# The *red* house

A [link to **bold** text](https://example.org/a_(b) "Title") and `code`, an ![image](a.png).
Second line of the paragraph with <b>HTML</b> and a footnote.[^1]

> A quotation that goes
> over two lines.

1. One item
2. Another item
   that goes on

- [ ] A task

| Name | Meaning of it |
| --- | --- |
| `x` | the **first** thing |

```python
print("Not translated")
```

    indented code

<div title="Tooltip text">Some text in a <em>block</em>.</div>

See the [user guide][], the [next
page], [both][ref] and [nothing].

[^1]: The footnote itself.

[ref]: https://example.org
[User guide]: https://example.org/guide
[next page]: <https://example.org/next>
"""

HTML = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>The page &amp; more</title>
<meta name="description" content="What it is about">
<style>p { color: red }</style><script>if (a < b) { alert("no"); }</script></head>
<body class="x">
<!-- a comment -->
<h1>The <em>red</em> house</h1>
<p>A man&nbsp;and a <a href="x?a=1&amp;b=2">woman &lt;3</a> walk<br>slowly, see <code>x = 1</code>.
   <img src="a.png" alt="A dog"></p>
<ul><li>One<li>Two <b>things</b></ul>
<p translate="no">Leave this alone</p><p>Say <span class="notranslate">Dragoman</span> twice.</p>
<pre>not this</pre><input placeholder="Your name" value="x"><br/>
Loose text
</body></html>
"""

SRT = """1\r
00:00:01,000 --> 00:00:03,500\r
A man walks down the street\r
and sees a <i>dog</i>.\r
\r
2
00:00:04,000 --> 00:00:05,000
- Who are you?
- {\\an8}Nobody.

3
00:00:06,000 --> 00:00:07,000
♪ ♪
"""

VTT = """WEBVTT - a title

NOTE this is a comment

intro
00:01.000 --> 00:04.000 align:start position:10%
<v Mary>The dog is <b>old</b>.

STYLE
::cue { color: red }
"""

PO = """# Translators
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=2; plural=(n > 1);\\n"

#: main.c:10
msgid "Open the file"
msgstr ""

#: main.c:20
#, c-format
msgid "Cannot open <b>%s</b>: \\"%d\\" errors\\n"
msgstr ""

msgid "Done"
msgstr "Fini"

#, fuzzy
msgid "Old text"
msgstr "Vieux texte"

msgctxt "menu"
msgid "One dog"
msgid_plural "%d dogs"
msgstr[0] ""
msgstr[1] ""

msgid ""
"A long text\\n"
"in two lines\\n"
msgstr ""

#~ msgid "obsolete"
#~ msgstr ""
"""

XLIFF = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
 <file original="a" source-language="en" target-language="fr" datatype="plaintext"><body>
  <trans-unit id="1">
    <source>The <g id="1">red</g> house &amp; <x id="2"/> garden</source>
  </trans-unit>
  <trans-unit id="2">
    <source>Done</source>
    <target state="final">Fini</target>
  </trans-unit>
  <trans-unit id="3"><source>A dog</source><target state="new"/></trans-unit>
  <trans-unit id="4" translate="no"><source>Leave it</source></trans-unit>
  <trans-unit id="5">
    <source>A <bpt id="1">&lt;b></bpt>bold<ept id="1">&lt;/b></ept> word</source><target></target>
  </trans-unit>
 </body></file>
</xliff>
"""

XLIFF2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="fr">
 <file id="f1"><unit id="1">
  <segment id="s1"><source>The <pc id="1">red</pc> house<ph id="2"/></source></segment>
  <segment id="s2" state="final"><source>Done</source><target>Fini</target></segment>
  <segment id="s3" state="initial">
    <source>A dog</source>
    <target></target>
  </segment>
 </unit></file>
</xliff>
"""

TMX = """<?xml version="1.0"?>
<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en-US"><seg>The <hi>red</hi> house</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Done</seg></tuv><tuv xml:lang="fr"><seg>Fini</seg></tuv></tu>
<tu>
  <tuv xml:lang="en"><seg>A <ph>{1}</ph> dog</seg></tuv>
</tu>
</body></tmx>
"""

JSON = """{
  "title": "The red house",
  "count": 3, "id": "user_name", "url": "https://example.org",
  "nested": {"list": ["One dog", "two  spaces ", true, null, "12:30"], "Save": "Save"},
  "html": "Click <b>here</b>, {name}!\\nSecond line \\"quoted\\" \\u00e9",
  "icu": "{n, plural, one {# dog} other {# dogs}}"
}
"""

YAML = """# comment
title: The red house
quoted: 'It''s here'
double: "A \\"word\\" here"
id: user_name
number: 3
list: [One dog, Two cats]
block: |
  First line
  of the text.
folded: >-
  A folded text
  in lines.
anchor: &a Hello there
alias: *a
"""
