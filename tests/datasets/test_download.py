"""Downloads from a server of one's own on this machine."""

import errno
import hashlib
import io
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bench.cli import main
from common.errors import InputError
from datasets import download
from datasets.download import Archive

CONTENT = bytes(range(256)) * 12_000


def packed(**members):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as file:
        for name, content in members.items():
            file.writestr(name.replace("__", "/"), content)
    return held.getvalue()


class Server(ThreadingHTTPServer):
    """Serves one content; may cut each answer short, or not know of ranges."""

    def __init__(self, content):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.cut, self.ranges, self.asked = content, None, True, []

    def handle_error(self, *_):
        """A client that hangs up is no news."""

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/things.zip"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server, byte_range = self.server, self.headers.get("Range")
        server.asked.append(byte_range)
        first = int(byte_range.removeprefix("bytes=").rstrip("-")) if byte_range and server.ranges else 0
        if first >= len(server.content):
            self.send_error(416)
            return
        rest = server.content[first:]
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest[: server.cut])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with Server(packed(things__a=CONTENT, things__b="b")) as one:
        thread = threading.Thread(target=one.serve_forever, args=(0.02,))
        thread.start()
        yield one
        one.shutdown()
        thread.join()


def archive(server, **changes):
    result = {"file": "things.zip", "urls": (server.url,), "size": 0, "md5": hashlib.md5(server.content).hexdigest()}
    return Archive(**result | {"unpacked": 10**8, "folder": "things"} | changes)


def get(server, root, source=None, **changes):
    received = []
    download.install_archives("toys", (archive(server, **changes),), root, source, received.append)
    return received


def test_an_archive_is_fetched_checked_and_unpacked(server, tmp_path):
    message = get(server, tmp_path)
    assert (tmp_path / "toys" / "things" / "a").read_bytes() == CONTENT
    assert [p.name for p in (tmp_path / "toys").iterdir()] == ["things"]
    assert server.url in message[1] and "at most 100 MB unpacked" in message[0]
    assert "exists already" in get(server, tmp_path)[-1] and len(server.asked) == 1


def test_a_cut_transfer_goes_on_where_it_was_cut(server, tmp_path):
    server.cut = 1_000_000
    get(server, tmp_path)
    starts = [int(r.removeprefix("bytes=").rstrip("-")) for r in server.asked[1:]]
    assert server.asked[0] is None and starts == [1_000_000, 2_000_000, 3_000_000]
    assert (tmp_path / "toys" / "things" / "a").read_bytes() == CONTENT


def test_what_a_dead_transfer_left_serves_the_next_call(server, tmp_path):
    server.cut, part = 0, tmp_path / "toys" / "things.zip.part"
    part.parent.mkdir()
    part.write_bytes(server.content[:777])
    with pytest.raises(
        InputError, match=r"things\.zip: download failed \(.*777 bytes are kept, the same command resumes\)"
    ):
        get(server, tmp_path)
    server.cut = None
    get(server, tmp_path)
    assert server.asked[-1] == "bytes=777-" and (tmp_path / "toys" / "things" / "b").read_text() == "b"


def test_a_server_that_knows_no_ranges_starts_over(server, tmp_path):
    server.ranges, part = False, tmp_path / "toys" / "things.zip.part"
    part.parent.mkdir()
    part.write_bytes(b"x" * 777)
    get(server, tmp_path)
    assert (tmp_path / "toys" / "things" / "a").read_bytes() == CONTENT


def test_a_whole_part_is_not_fetched_again(server, tmp_path):
    part = tmp_path / "toys" / "things.zip.part"
    part.parent.mkdir()
    part.write_bytes(server.content)
    get(server, tmp_path)
    assert (tmp_path / "toys" / "things" / "b").read_text() == "b"


def test_the_next_address_is_tried(server, tmp_path):
    dead = "http://127.0.0.1:9/things.zip"
    message = get(server, tmp_path, urls=(dead, server.url))
    assert any(dead in line and "refused" in line for line in message) and (tmp_path / "toys" / "things").is_dir()


def test_a_wrong_checksum_is_thrown_away(server, tmp_path):
    with pytest.raises(InputError) as error:
        get(server, tmp_path, md5="0" * 32)
    assert "MD5 is" in str(error.value) and "give --from PATH" in str(error.value) and "\n" not in str(error.value)
    assert not list((tmp_path / "toys").iterdir())


def test_a_full_disk_is_one_line_and_keeps_what_came(server, tmp_path, monkeypatch):
    real, left = Path.open, [1_500_000]

    class Full(io.FileIO):
        def write(self, data):
            left[0] -= len(data)
            if left[0] < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(data)

    monkeypatch.setattr(
        Path, "open", lambda p, m="r", *a: Full(p, m) if p.suffix == ".part" and m != "rb" else real(p, m)
    )
    with pytest.raises(
        InputError, match=r"things\.zip\.part: cannot be written \(No space left on device\); make room"
    ):
        get(server, tmp_path)
    monkeypatch.undo()
    get(server, tmp_path)
    assert server.asked[-1].startswith("bytes=") and (tmp_path / "toys" / "things" / "a").read_bytes() == CONTENT


def test_a_disk_without_room_is_told_before_the_transfer(server, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    with pytest.raises(InputError, match="3 MB are needed, 0 MB are free; make room"):
        get(server, tmp_path)


# Unpacking


def tar_of(file, **members):
    with tarfile.open(file, "w:gz") as tar:
        for name, kind in members.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, "/etc", 0
            tar.addfile(info)
    return file


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/etc/evil", "..\\evil", "C:\\evil"])
def test_a_member_outside_the_folder_is_refused(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as file:
        file.writestr("good", "good")
        file.writestr(name, "evil")
    with pytest.raises(InputError, match=r"evil\.zip: member .* would lie outside the folder"):
        download.unpack(tmp_path / "evil.zip", tmp_path / "in" / "things", 10**6)
    assert [p.name for p in tmp_path.iterdir()] in (["evil.zip"], ["in", "evil.zip"], ["evil.zip", "in"])
    assert not any((tmp_path / "in").iterdir())


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(tmp_path, kind):
    file = tar_of(tmp_path / "odd.tar.gz", good=tarfile.REGTYPE, odd=kind)
    with pytest.raises(InputError, match="'odd' is a link or device"):
        download.unpack(file, tmp_path / "things", 10**6)
    assert not (tmp_path / "things").exists()


def test_a_link_in_a_zip_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        info = zipfile.ZipInfo("link")
        info.external_attr = 0o120777 << 16
        file.writestr(info, "/etc")
    with pytest.raises(InputError, match="is a link"):
        download.unpack(tmp_path / "a.zip", tmp_path / "things", 10**6)


def test_more_than_the_limit_is_refused(tmp_path):
    (tmp_path / "bomb.zip").write_bytes(packed(a=b"0" * 2_000_000))
    with pytest.raises(InputError, match="unpacks to more than 1 MB"):
        download.unpack(tmp_path / "bomb.zip", tmp_path / "things", 10**6)
    assert [p.name for p in tmp_path.iterdir()] == ["bomb.zip"]


@pytest.mark.parametrize("cut", [0, 10, 1000, 2_000_000])
def test_a_broken_archive_is_one_line(tmp_path, cut):
    whole = packed(a=CONTENT)
    damaged = whole[:cut] if cut < len(whole) // 2 else whole[:cut] + b"?" + whole[cut + 1 :]
    (tmp_path / "cut.zip").write_bytes(damaged)
    with pytest.raises(InputError, match=r"cut\.zip: not a complete archive"):
        download.unpack(tmp_path / "cut.zip", tmp_path / "things", 10**8)
    assert not (tmp_path / "things").exists()


# What is on disk already


def test_from_takes_an_archive_or_the_folder_or_the_folder_around_it(server, tmp_path):
    file, given = tmp_path / "renamed.zip", tmp_path / "given"
    file.write_bytes(server.content)
    download.unpack(file, given / "things", 10**8)
    for number, source in enumerate((file, given, given / "things")):
        get(server, tmp_path / str(number), source)
        assert (tmp_path / str(number) / "toys" / "things" / "b").read_text() == "b"
    assert not server.asked


def test_from_refuses_what_is_not_it(server, tmp_path):
    (tmp_path / "other.zip").write_bytes(b"other")
    (tmp_path / "empty").mkdir()
    for source, says in (
        ("nowhere", "no such file"),
        ("other.zip", "MD5 .* is not that of"),
        ("empty", "has no folder things/"),
    ):
        with pytest.raises(InputError, match=f"--from .*{source}: .*{says}"):
            get(server, tmp_path, tmp_path / source)


def test_the_command_tells_licence_and_what_is_ready(tmp_path, capsys):
    assert main.main(["data", "shapes40", "--data", str(tmp_path)]) == 0
    assert "shapes40: licence: " in capsys.readouterr().out
    assert main.main(["data", "stanford", "--data", str(tmp_path)]) == 2
    assert "graphics.stanford.edu" in capsys.readouterr().err
