"""Jinja templates of the page; all texts in them are escaped."""

from __future__ import annotations

_STYLE = """
.ia { font: 15px/1.5 system-ui, sans-serif; color: #1c1e21;
  max-width: 62rem; margin: 0 auto; padding: 1rem; }
.ia h1 { font-size: 1.15rem; margin: 0 0 1rem; }
.ia details { border: 1px solid #d0d4da; border-left-width: 6px;
  border-radius: 4px; margin: .6rem 0; padding: .5rem .8rem; }
.ia details.critical { border-left-color: #c62828; }
.ia details.warning { border-left-color: #e69100; }
.ia details.info { border-left-color: #2f7fb5; }
.ia details.tree { border: 0; margin: 0; padding: 0; }
.ia summary { cursor: pointer; overflow-wrap: anywhere; }
.ia dl { display: grid; grid-template-columns: 7rem 1fr; gap: .2rem .8rem;
  margin: .6rem 0; }
.ia dt { color: #5b6370; }
.ia dd { margin: 0; overflow-wrap: anywhere; }
.ia pre { background: #f4f5f7; padding: .4rem .6rem; margin: .2rem 0;
  overflow-x: auto; }
.ia .quiet { color: #5b6370; margin: .2rem 0; }
.ia svg { width: 100%; height: auto; background: #f4f5f7; }
.ia table { border-collapse: collapse; font-size: .9rem; }
.ia td, .ia th { padding: .1rem .7rem .1rem 0; text-align: right;
  vertical-align: top; }
.ia td:last-child, .ia th:last-child { text-align: left;
  overflow-wrap: anywhere; }
.ia polyline { fill: none; stroke: #1c1e21; stroke-width: 1.5; }
@media (prefers-color-scheme: dark) {
  .ia { color: #e4e6ea; background: #17191c; }
  .ia pre, .ia svg { background: #24272c; }
  .ia table { border-collapse: collapse; font-size: .9rem; }
.ia td, .ia th { padding: .1rem .7rem .1rem 0; text-align: right;
  vertical-align: top; }
.ia td:last-child, .ia th:last-child { text-align: left;
  overflow-wrap: anywhere; }
.ia polyline { stroke: #e4e6ea; }
  .ia dt, .ia .quiet { color: #a3abb8; }
}
"""

_FRAGMENT = (
    "<style>"
    + _STYLE
    + """</style>
<div class="ia">
<h1>ImpactArbiter: {{ summary|clean }}</h1>
{% for finding in findings %}
<details class="{{ finding.severity }}"{{ " open" if finding.open }}>
<summary><b>{{ finding.severity|upper }} {{ finding.verdict }}</b>:
{{ finding.headline|clean }}</summary>
<dl>
{% for fact in finding.facts %}
<dt>{{ fact.label }}</dt>
<dd>
{% if fact.label == "kept by" %}
{{ finding.tree }}
{% else %}
{{ fact.text|clean }}
{% endif %}
{% if fact.code %}
<pre>
{%- for text in fact.code %}{{ text|clean }}{{ "\\n" }}{% endfor -%}
</pre>
{% endif %}
</dd>
{% endfor %}
</dl>
{% if finding.stack %}
<details><summary>stack, innermost first</summary>
<pre>
{%- for site, source in finding.stack %}
{{ site|clean }}{{ "\\n" }}
{%- if source %}    {{ source|trim|clean }}{{ "\\n" }}{% endif %}
{% endfor -%}
</pre></details>
{% endif %}
<p class="quiet">signature {{ finding.signature|clean }}</p>
</details>
{% endfor %}
{% if chart %}
<p class="quiet">live memory, steps {{ chart.first }} to {{ chart.last }};
the top is {{ chart.top|bytes }}</p>
<svg viewBox="0 0 {{ chart.width }} {{ chart.height }}" role="img">
<polyline points="{{ chart.points }}"/></svg>
{% endif %}
{% for size, blocks, site, ages in lines %}
{% if loop.first %}
<table>
{% endif %}
{% if loop.changed(ages.keys()|list) %}
<tr><th>alive</th><th>blocks</th>
{%- for age in ages %}<th>{{ age|clean }}</th>{% endfor -%}
<th>line</th></tr>
{% endif %}
<tr><td>{{ size }}</td><td>{{ blocks }}</td>
{%- for bytes in ages.values() %}<td>{{ bytes|bytes }}</td>{% endfor -%}
<td>{{ site|clean }}</td></tr>
{% if loop.last %}
</table>
{% endif %}
{% endfor %}
{% for text in footer %}
<p class="quiet">{{ text|clean }}</p>
{% endfor %}
{% for text in warnings %}
<p><b>warning:</b> {{ text|clean }}</p>
{% endfor %}
{% if environment %}
<details><summary>environment</summary>
<dl>
{% for name, value in environment %}
<dt>{{ name|clean }}</dt><dd>{{ value|clean }}</dd>
{% endfor %}
</dl></details>
{% endif %}
</div>
"""
)

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>ImpactArbiter: {{ summary|clean }}</title>
</head>
<body>
{% include "fragment" %}
</body>
</html>
"""

TEMPLATES = {"page": _PAGE, "fragment": _FRAGMENT}
