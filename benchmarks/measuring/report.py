"""What a run has found, as JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path

from measuring.turns import Record


@dataclass
class Report:
    machine: dict[str, object]
    rounds: int
    records: list[Record] = field(default_factory=list)
    remarks: dict[str, list[str]] = field(default_factory=dict)

    def parts(self) -> list[str]:
        return list(dict.fromkeys(record.part for record in self.records))

    def of(self, part: str) -> list[Record]:
        return [record for record in self.records if record.part == part]

    def write(self, path: Path) -> None:
        """Write all of it, a record in a line."""
        content = dataclasses.asdict(self)
        records = ",\n".join(json.dumps(record) for record in content.pop("records"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{json.dumps(content)[:-1]}, "records": [\n{records}\n]}}\n', encoding="utf-8")


def read(path: Path) -> Report:
    content = json.loads(path.read_text(encoding="utf-8"))
    records = [Record(**{**each, "quartiles": tuple(each["quartiles"])}) for each in content.pop("records")]
    return Report(**content, records=records)
