"""How logs are written: a row of the table a format, from which reading, its hints and the docs follow.

A line is described by a regular expression in which ``{ip}`` stands for a field of that name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_QUOTED = r'[^"\\]*(?:\\.[^"\\]*)*'
_FIELDS = {
    "time": r"[^\]]+",
    "request": _QUOTED,
    "referer": _QUOTED,
    "agent": _QUOTED,
    "status": "[0-9]{3}",
    "bytes": "[0-9]+|-",
}
_ANY_FIELD = "[^ ]+"
_COMMON = r'{ip} [^ ]+ {user} \[{time}\] "{request}" {status} {bytes}'
_AGENT = r' "{referer}" "{agent}"'
_MORE = r"(?: .*)?"
_COLUMN = r'"?[A-Za-z_][\w .()-]*"?'
_DELIMITERS = (";", "\t", "|", ",")


class LogFormat(NamedTuple):
    """A format by its name, who writes it, a sample, and what a line is: an expression, or how logs begin."""

    name: str
    written_by: str
    sample: str
    line: str = "(?!)"
    begins: tuple[str, ...] = ()

    def pattern(self) -> re.Pattern[str]:
        """Return what a line is as an expression, with a group for each field."""
        return re.compile(re.sub(r"\{([a-z]+)\}", lambda field: _group(field[1]), self.line))

    def describes(self, line: str) -> bool:
        """Tell whether a line looks like one of this format."""
        return line.lstrip().startswith(self.begins) or self.pattern().fullmatch(line) is not None

    @property
    def title(self) -> str:
        """What it is called in messages."""
        return self.name.upper() if self.begins else f"the {self.name} format"


def _group(name: str) -> str:
    return f"(?P<{name}>{_FIELDS.get(name, _ANY_FIELD)})"


LOG_FORMATS = (
    LogFormat(
        "combined",
        "nginx, Apache",
        '203.0.113.7 - ada [10/Oct/2025:13:55:36 +0200] "GET /a HTTP/1.1" 200 512 "-" "curl/8.5"',
        _COMMON + _AGENT + _MORE,
    ),
    LogFormat(
        "common",
        "Apache, and most servers",
        '203.0.113.7 - ada [10/Oct/2025:13:55:36 +0200] "GET /a HTTP/1.1" 200 512',
        _COMMON + _MORE,
    ),
    LogFormat(
        "vhost_combined",
        "Apache of Debian",
        "shop.example:443 203.0.113.7 - ada [10/Oct/2025:13:55:36 +0200] "
        '"GET /a HTTP/1.1" 200 512 "-" "curl/8.5"',
        "{host} " + _COMMON + _AGENT + _MORE,
    ),
    LogFormat(
        "haproxy",
        "HAProxy (option httplog)",
        "203.0.113.7:51544 [10/Oct/2025:13:55:36.125] web~ app/a1 0/0/1/4/5 200 512 - - ---- 1/1/0/0/0 0/0 "
        '"GET /a HTTP/1.1"',
        r"(?:.* )?{ip}:[0-9]+ \[{time}\] {frontend} {backend} [-+/0-9]+ (?P<status>[0-9]{3}|-1) \+?{bytes} "
        r'.*"{request}"',
    ),
    LogFormat(
        "alb",
        "load balancers of AWS",
        "https 2025-10-10T11:55:36.125000Z app/shop/50dc6c495c0c9188 203.0.113.7:51544 10.0.0.1:80 "
        '0.000 0.001 0.000 200 200 34 512 "GET https://shop.example:443/a HTTP/1.1" "curl/8.5" - - -',
        r"[^ ]+ (?P<time>[^ ]+) {elb} {ip}:[0-9]+ {target} [^ ]+ [^ ]+ [^ ]+ (?P<status>[0-9]{3}|-) "
        r'[^ ]+ [^ ]+ {bytes} "{request}" "{agent}"' + _MORE,
    ),
    LogFormat(
        "nginx_error",
        "nginx",
        "2025/10/10 13:55:36 [error] 71#71: *5 limiting requests, excess: 1.000, client: 203.0.113.7, "
        'server: shop, request: "GET /a HTTP/1.1", host: "shop.example"',
        r"(?P<time>[^\[]+) \[{level}\] [^ ]+ .*?"
        r'(?:, client: (?P<ip>[^, ]+)(?:, .*?request: "{request}")?.*)?',
    ),
    LogFormat(
        "apache_error",
        "Apache",
        "[Fri Oct 10 13:55:36.125000 2025] [core:error] [pid 71:tid 72] [client 203.0.113.7:51544] AH37: x",
        r"\[{time}\] \[(?P<level>[^\]]+)\] (?:\[pid [^\]]+\] )?"
        r"(?:.*?\[client (?P<ip>[^ \]]+?)(?::[0-9]+)?\])?.*",
    ),
    LogFormat(
        "w3c",
        "CloudFront, IIS",
        "#Fields: date time c-ip cs-method cs-uri-stem sc-status\n"
        "2025-10-10\t11:55:36\t203.0.113.7\tGET\t/a\t200",
        begins=("#Fields:", "#Version:", "#Software:", "#Date:"),
    ),
    LogFormat(
        "json",
        "applications, Caddy",
        '{"time": "2025-10-10T11:55:36Z", "ip": "203.0.113.7", "path": "/a"}',
        begins=("{", "[{"),
    ),
    LogFormat(
        "csv",
        "databases, spreadsheets",
        "time,ip,path\n2025-10-10 11:55:36,203.0.113.7,/a",
        rf"{_COLUMN}(?:([;\t|,]){_COLUMN})(?:\1{_COLUMN})*",
    ),
    LogFormat("parquet", "pandas, polars, DuckDB", ""),
)

BY_NAME = {form.name: form for form in LOG_FORMATS}
NAMES = ", ".join(map(repr, BY_NAME))


def format_hint(line: str, used: str) -> str:
    """Say in which other format a line seems to be than in the one ``used``."""
    if used == "json" and (line.strip() == "{" or line.lstrip().startswith("[")):
        return "; each object has to be a line by itself, as jq -c writes it (jq -c '.[]' those of an array)"
    likely = next((form for form in LOG_FORMATS if form.describes(line)), None)
    if likely is None or used in (likely.name, "parquet"):
        return ""
    return f"; it looks like {likely.title}: format={likely.name!r}"


def delimiter_hint(names: Sequence[str], delimiter: str) -> str:
    """Say what seems to separate the columns of a CSV file of which only one was found."""
    likely = max(_DELIMITERS, key="".join(names).count)
    if len(names) != 1 or likely not in names[0] or likely == delimiter:
        return ""
    return f"; {likely!r} seems to separate them: delimiter={likely!r}"
