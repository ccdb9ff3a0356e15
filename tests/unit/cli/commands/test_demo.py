"""The demo's view of a recording."""

from pathlib import Path

from antiphon.cli.commands.demo import folder_tree


def test_a_tree_has_the_number_of_files_in_each_folder(tmp_path: Path) -> None:
    many = tmp_path / "s" / "audio"
    many.mkdir(parents=True)
    (tmp_path / "s" / "images").mkdir()
    for number in range(20):
        (many / f"{number:02}.wav").write_bytes(b"x" * 1500)
    (tmp_path / "s" / "meta.json").write_text("{}")
    (tmp_path / "s" / "replay.wav").write_bytes(b"x" * 1500)
    assert folder_tree(tmp_path / "s").splitlines() == [
        f"{tmp_path}/s/",
        "├── audio/  20 files",
        "├── meta.json  2 B",
        "└── replay.wav  1.5 kB",
    ]
