"""The demo's view of a recording."""

from __future__ import annotations

from pathlib import Path

from antiphon.cli.commands.demo import folder_tree


def test_tree_shortens_long_folders_in_the_middle(tmp_path: Path) -> None:
    many = tmp_path / "s" / "audio"
    many.mkdir(parents=True)
    for number in range(20):
        (many / f"{number:02}.wav").write_bytes(b"x" * 1500)
    (tmp_path / "s" / "meta.json").write_text("{}")
    lines = folder_tree(tmp_path / "s").splitlines()
    assert lines[1:3] == ["├── audio/", "│   ├── 00.wav  1.5 kB"]
    assert "│   ├── … 12 more" in lines
    assert lines[-2:] == ["│   └── 19.wav  1.5 kB", "└── meta.json  2 B"]
