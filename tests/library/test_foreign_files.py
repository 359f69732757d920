"""Files of others: gzip by its content, and damage that names the file."""

import gzip

import pytest

from elmo_core.files.foreign_files import damage_named, open_file
from elmo_core.messages import UserError


@pytest.mark.parametrize("name", ["text.gz", "text.txt"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_gzip_is_recognised_whatever_the_name(tmp_path, name, compress):
    (tmp_path / name).write_bytes(compress(b"the bank\n"))
    with open_file(tmp_path / name) as file:
        assert file.read() == b"the bank\n"


@pytest.mark.parametrize(
    "error", [EOFError("too short"), KeyError("name"), OSError("bad checksum")]
)
def test_whatever_damage_raises_names_the_file(error):
    with pytest.raises(UserError, match=r"words\.bin"), damage_named("words.bin"):
        raise error


def test_what_is_no_damage_is_not_called_so():
    with pytest.raises(PermissionError), damage_named("words.bin"):
        raise PermissionError(13, "Permission denied")
    with pytest.raises(UserError, match=r"^clear$"), damage_named("words.bin"):
        raise UserError("clear")
