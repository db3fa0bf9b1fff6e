"""What each tool leaves in the mount, and then in the bucket, is what it leaves in a local folder."""

import contextlib
import fcntl
import hashlib
import mmap
import os
import shutil
import struct
import subprocess
import tarfile
import tempfile
from pathlib import Path

import dask.array
import h5py
import numpy as np
import pytest
import tensorstore
import xarray as xr
import zarr
from conftest import open_mount
from distributed import Client, LocalCluster
from test_interop import names, objects

OLD = 1_234_567_890_123_456_789

# Of Linux; Python has no name for it.
F_OFD_SETLK = 37


def sh(command, folder, **variables):
    """Runs a command line in `folder`; an error of any of its programs fails the test."""
    done = subprocess.run(
        ["bash", "-euc", "-o", "pipefail", command],
        cwd=folder,
        env={**os.environ, **{name: str(value) for name, value in variables.items()}},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def source(folder):
    """Files for the tools to copy: names, sizes and times that matter."""
    folder.mkdir()
    (folder / "sub" / "deeper").mkdir(parents=True)
    contents = {
        "empty": b"",
        "small": b"a line\nanother line\n",
        "sub/médiane [v1]~ a%20b#": b"literal name",
        "sub/deeper/.hidden": b"x" * 5000,
        "sub/deeper/page": os.urandom(4096),
        "big": os.urandom((3 << 20) + 17),
    }
    for age, (name, content) in enumerate(contents.items()):
        (folder / name).write_bytes(content)
        os.utime(folder / name, ns=(OLD, OLD + age))
        (folder / name).chmod(0o640 if age % 2 else 0o755)
    return folder


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def view(folder, times=True):
    """What programs see of the files in a folder."""
    seen = {}
    for name in names(folder):
        path = Path(folder) / name
        stat = path.stat()
        mtime = stat.st_mtime_ns if times and abs(stat.st_mtime_ns - OLD) < 10**12 else "now"
        seen[name] = (stat.st_size, oct(stat.st_mode), mtime, digest(path))
    return seen


def folders(folder):
    return sorted(os.path.relpath(here, folder) for here, _, _ in os.walk(folder))


COMMANDS = {
    "cp": "cp $SOURCE/small $SOURCE/big $SOURCE/empty .",
    "cp over a file": "cp $SOURCE/big f; cp $SOURCE/small f",
    "cp -a": "cp -a $SOURCE tree",
    "cp -r": "cp -r $SOURCE tree",
    "cp -r twice": "cp -r $SOURCE tree; cp -r $SOURCE/. tree",
    "cp -p over a file": "cp $SOURCE/small f; cp -p $SOURCE/big f",
    "cp -u": "cp -p $SOURCE/small f; cp -u $SOURCE/small f; cp -u $SOURCE/big f",
    "cp --sparse": "truncate -s 3M hole; cp --sparse=always hole a; cp --sparse=never hole b",
    "cp --backup": "cp $SOURCE/small f; cp --backup $SOURCE/big f",
    "cp --remove-destination": "cp $SOURCE/small f; cp --remove-destination $SOURCE/big f",
    "cp -l": "cp -p $SOURCE/small f; cp -l f g",
    "cp within the mount": "cp -a $SOURCE tree; cp -a tree again; cp tree/small tree/copy",
    "mv into the mount": "cp -a $SOURCE $OUTSIDE/tree; mv $OUTSIDE/tree .; test ! -e $OUTSIDE/tree",
    "mv out of the mount": "cp -a $SOURCE tree; mv tree $OUTSIDE/out; diff -r $SOURCE $OUTSIDE/out",
    "mv over a file": "cp $SOURCE/small f; cp $SOURCE/big g; mv g f",
    "mv -n": "cp $SOURCE/small f; cp $SOURCE/big g; mv -n g f || true",
    "mv of a folder": "cp -a $SOURCE a; mv a b; mkdir c; mv b c",
    "mv --backup": "cp $SOURCE/small f; cp $SOURCE/big g; mv --backup=numbered g f",
    "rm": "cp -a $SOURCE tree; rm tree/big; rm -r tree/sub",
    "rmdir": "mkdir -p a/b/c; rmdir a/b/c; touch a/keep",
    "rsync -a": "rsync -a $SOURCE/ tree",
    "rsync --inplace": "cp $SOURCE/small small; rsync -a --inplace $SOURCE/ .",
    "rsync --delay-updates": "rsync -a --delay-updates $SOURCE/ tree; rsync -a -c --delay-updates $SOURCE/ tree",
    "rsync --append": "head -c 1000000 $SOURCE/big > big; rsync -a --append-verify $SOURCE/big big",
    "rsync --delete": "cp -a $SOURCE tree; touch tree/extra tree/sub/extra; rsync -a --delete $SOURCE/ tree",
    "rsync --backup": "cp $SOURCE/big small; rsync -a --backup $SOURCE/ .",
    "rsync -S --partial": "rsync -a -S --partial $SOURCE/ tree",
    "rsync --whole-file --fsync": "rsync -aW --fsync $SOURCE/ tree",
    "rsync --no-whole-file": "head -c 2000000 $SOURCE/big > big; rsync -a --no-whole-file $SOURCE/big big",
    "rsync --temp-dir": "mkdir t; rsync -a --temp-dir=$PWD/t $SOURCE/ tree; rmdir t",
    "rsync --remove-source-files": "cp -a $SOURCE $OUTSIDE/s; rsync -a --remove-source-files $OUTSIDE/s/ tree",
    "rsync from the mount": "cp -a $SOURCE tree; rsync -a tree/ again",
    "tar x": "tar c -C $SOURCE . | tar x",
    "tar x over files": "cp -r $SOURCE/. .; tar c -C $SOURCE . | tar x --overwrite",
    "tar x with a hard link": "(cd $OUTSIDE; echo a > f; ln f g; tar cf l.tar f g); tar xf $OUTSIDE/l.tar",
    "tar c in the mount": "cp -a $SOURCE tree; tar cf a.tar --sort=name --mtime=@0 --owner=0 --group=0 tree; tar rf a.tar --mtime=@0 tree/small",
    "dd": "dd if=$SOURCE/big of=f bs=64k status=none",
    "dd conv=notrunc": "dd if=$SOURCE/big of=f status=none; dd if=$SOURCE/small of=f bs=1 seek=1000 conv=notrunc status=none",
    "dd oflag=append": "cp $SOURCE/small f; dd if=$SOURCE/small of=f oflag=append conv=notrunc status=none",
    "dd seek": "dd if=$SOURCE/small of=f bs=4096 seek=100 status=none",
    "dd conv=fsync": "dd if=$SOURCE/big of=f bs=1M conv=fsync status=none",
    "dd oflag=direct": "dd if=/dev/zero of=f bs=4096 count=64 oflag=direct status=none",
    "dd oflag=dsync": "dd if=/dev/zero of=f bs=4096 count=4 oflag=dsync status=none",
    "install": "install $SOURCE/small f; install -m 600 $SOURCE/big g; install -D $SOURCE/small a/b/c",
    "install -p over a file": "install $SOURCE/small f; install -p $SOURCE/big f",
    "ln": "cp -p $SOURCE/small f; ln f g; rm f",
    "ln -f": "cp $SOURCE/small f; cp $SOURCE/big g; ln -f f g",
    "sed -i": "cp $SOURCE/small f; sed -i s/line/word/ f; sed -i.bak s/word/end/ f",
    "perl -i": "cp $SOURCE/small f; perl -pi -e s/line/word/ f",
    "truncate": "cp $SOURCE/big f; truncate -s 100 f; truncate -s 5000 f; truncate -s +3 f; truncate -s 0 g",
    "touch": "touch f; cp $SOURCE/small g; touch -r $SOURCE/big g; touch -d @1234567890 f; touch -a g",
    "chmod and chown": "cp $SOURCE/small f; chmod 600 f; chown $(id -u):$(id -g) f; mkdir d; chmod 700 d; touch d/f",
    "redirections": "echo a > f; echo b >> f; echo c > g; echo d > g; : > h; { echo e; echo f; } > i; exec 3> j; echo k >&3; echo l >&3; exec 3>&-",
    "a shell that closes copies": "(echo a; sh -c 'echo b'; echo c) > f",
    "exec <>": "echo 12345 > f; exec 3<> f; read -N 2 -u 3 x; echo -n X >&3; exec 3>&-",
    "tee": "cat $SOURCE/small | tee f g > h; cat $SOURCE/small | tee -a f > /dev/null",
    "split and cat": "split -b 1000000 $SOURCE/big part.; cat part.* > whole; cmp whole $SOURCE/big",
    "sort -o": "cp $SOURCE/small f; sort -r -o f f",
    "gzip in place": "cp $SOURCE/small f; gzip -n f; cp $SOURCE/small g; gzip -n < g > h.gz; gunzip f.gz",
    "unzip": "(cd $SOURCE; python3 -m zipfile -c $OUTSIDE/a.zip small big sub); python3 -m zipfile -e $OUTSIDE/a.zip .",
    "zip in the mount": "cp -p $SOURCE/small .; TZ=UTC python3 -m zipfile -c a.zip small",
    "patch": "cp $SOURCE/small f; (sed s/line/word/ f | diff -u f - || true) > $OUTSIDE/p; patch -s f $OUTSIDE/p",
    "mktemp": "f=$(mktemp -p .); cat $SOURCE/small > $f; mv $f kept",
    "find": "cp -r $SOURCE tree; find tree -name page -delete; find . -type f -newermt 1990-01-01 -printf '%p %s\\n' | sort > $OUTSIDE/list; cp $OUTSIDE/list .",
    "a folder renamed while it is written": "mkdir a; exec 3> a/f; echo x >&3; mv a b; echo y >&3; exec 3>&-",
    "a file deleted while it is open": "exec 3<> f; echo x >&3; rm f; echo y >&3; exec 3>&-; touch g",
    "a file replaced while it is read": "cp $SOURCE/small f; exec 3< f; cp $SOURCE/big g; mv g f; cat <&3 > h; exec 3<&-",
    "many small files": "for n in $(seq 300); do echo $n > f$n; done; for n in $(seq 1 3 300); do rm f$n; done",
    "git": (
        "export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_DATE='2020-01-01 00:00 +0000' GIT_COMMITTER_DATE='2020-01-01 00:00 +0000'"
        " GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a;"
        "git init -q --template= -b main r; cd r; cp -r $SOURCE/. .; git add .; git commit -qm one; git mv small renamed;"
        "git commit -qm two; git checkout -q -b side HEAD~; git merge -q --ff-only main; git fsck --strict; git repack -qad;"
        "git clone -q --no-hardlinks . ../clone; git -C ../clone log --format=%H > ../log; rm -rf .git ../clone"
    ),
}

# Commands whose files are made now and bear times: these differ in content from run to run.
REFUSED = {
    "ln -s": ("ln -s there link", "Operation not permitted"),
    "mkfifo": ("mkfifo pipe", "Operation not permitted"),
    "mknod": ("mknod device c 1 3", "Operation not permitted"),
}


class Tools:
    """A mount that the tools share; each works in a folder of its own."""

    def __init__(self, mount):
        self.mount = mount
        self.count = 0

    def compare(self, tmp_path, work, times=True):
        """Does `work` in a local folder and in the mount, and compares all there is to see."""
        self.count += 1
        local, mounted = tmp_path / "local", self.mount.path / f"t{self.count}"
        for folder in (local, mounted):
            folder.mkdir()
            work(folder)
        seen, expected = view(mounted, times), view(local, times)
        assert seen == expected
        assert folders(mounted) == folders(local)
        self.mount.run("flush", self.mount.path)
        assert view(mounted, times) == expected
        assert objects(self.mount.bucket / mounted.name) == objects(local)


@pytest.fixture(scope="module", params=["s3"])
def tools(request, tmp_path_factory, s3_server):
    mount = open_mount(request.param, tmp_path_factory.mktemp("tools"), s3_server)
    mount.mount()
    yield Tools(mount)
    before = view(mount.path, times=False)
    mount.umount()
    mount.mount()
    try:
        after = view(mount.path, times=False)
        assert {name: (seen[0], seen[3]) for name, seen in after.items()} == {
            name: (seen[0], seen[3]) for name, seen in before.items()
        }
    finally:
        mount.umount()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_tool_leaves_the_same_as_locally(tools, tmp_path, command):
    made = source(tmp_path / "source")

    def work(folder):
        outside = Path(tempfile.mkdtemp(dir=tmp_path))
        sh(COMMANDS[command], folder, SOURCE=made, OUTSIDE=outside)

    tools.compare(tmp_path, work)


@pytest.mark.parametrize("command", REFUSED)
def test_what_a_bucket_cannot_keep_is_refused(tools, command):
    line, message = REFUSED[command]
    done = subprocess.run(line, cwd=tools.mount.path, shell=True, capture_output=True, text=True)
    assert done.returncode != 0
    assert message in done.stderr


def shutil_copies(folder, made):
    shutil.copy(made / "small", folder / "a")
    shutil.copy2(made / "big", folder / "b")
    shutil.copy2(made / "small", folder / "b")
    shutil.copytree(made, folder / "tree")
    shutil.move(folder / "tree", folder / "moved")
    shutil.rmtree(folder / "moved" / "sub")


def temporary_and_replace(folder, made):
    with tempfile.NamedTemporaryFile("wb", dir=folder, delete=False) as file:
        file.write(b"first")
        file.flush()
        os.fsync(file.fileno())
    os.replace(file.name, folder / "f")
    os.link(folder / "f", folder / "g")
    os.unlink(folder / "f")
    with open(folder / "h", "xb") as file:
        file.write(b"x" * 10)
    with pytest.raises(FileExistsError):
        open(folder / "h", "xb")
    with pytest.raises(FileExistsError):
        os.link(folder / "g", folder / "h")


def random_access(folder, made):
    """Writes back and forth, beyond the end, at the end, and in what was already closed."""
    with open(folder / "f", "w+b") as file:
        file.write(b"a" * 100_000)
        file.seek(10)
        file.write(b"b" * 10)
        file.seek(300_000)
        file.write(b"end")
        file.truncate(400_000)
        file.seek(5)
        assert file.read(10) == b"aaaaabbbbb"
    with open(folder / "f", "r+b") as file:
        file.seek(200_000)
        assert file.read(3) == b"\0\0\0"
        file.write(b"middle")
        os.pwrite(file.fileno(), b"at", 399_999)
    with open(folder / "f", "ab") as file:
        file.write(b"appended")
        os.pwrite(file.fileno(), b"too", 0)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    with contextlib.ExitStack() as stack:
        ends = [os.open(folder / "log", flags) for _ in range(4)]
        for end in ends:
            stack.callback(os.close, end)
        for line in range(40):
            os.write(ends[line % 4], b"line %02d\n" % line)


def maps(folder, made):
    """Memory maps, read and written, of files with and without other handles."""
    shutil.copy(made / "big", folder / "f")
    with open(folder / "f", "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as m:
        assert m[:] == (made / "big").read_bytes()
    with open(folder / "f", "r+b") as file, mmap.mmap(file.fileno(), 0) as m:
        m[100:110] = b"0123456789"
        m.flush()
        assert os.pread(file.fileno(), 10, 100) == b"0123456789"
        m[2_000_000:2_000_004] = b"last"
    array = np.memmap(folder / "array", "f8", "w+", shape=(1000, 100))
    array[:] = np.arange(100)
    array.flush()
    del array
    assert np.memmap(folder / "array", "f8", "r", shape=(1000, 100))[999, 99] == 99


def readers_beside_writers(folder, made):
    """A file that is open for reading shows what others write, also where it was read before."""
    (folder / "f").write_bytes(b"a" * 100_000)
    with open(folder / "f", "rb", buffering=0) as reader:
        view = mmap.mmap(reader.fileno(), 0, access=mmap.ACCESS_READ)
        for turn in (b"b", b"c"):
            assert os.pread(reader.fileno(), 2, 50_000) == view[50_000:50_002]
            with open(folder / "f", "r+b") as writer:
                writer.seek(50_000)
                writer.write(turn)
            assert os.pread(reader.fileno(), 1, 50_000) == turn == view[50_000:50_001]
            fd = os.open(folder / "f", os.O_WRONLY)
            os.pwrite(fd, turn + b"d", 0)
            assert os.pread(reader.fileno(), 2, 0) == turn + b"d" == view[:2]
            os.close(fd)
        with open(folder / "f", "ab") as writer:
            writer.write(b"more")
        assert os.fstat(reader.fileno()).st_size == 100_004
        assert os.pread(reader.fileno(), 10, 100_000) == b"more"


def locks(folder, made):
    """flock, and locks of open file descriptions as TensorStore takes them."""
    whole = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    with open(folder / "f", "wb") as one, open(folder / "f", "r+b") as other:
        fcntl.flock(one, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(one, fcntl.LOCK_UN)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.fcntl(one, F_OFD_SETLK, whole)
        with pytest.raises(BlockingIOError):
            fcntl.fcntl(other, F_OFD_SETLK, whole)
        one.write(b"locked")


def kernel_copies(folder, made):
    """Ways to copy inside the kernel, and to make room."""
    shutil.copy(made / "big", folder / "f")
    size = (made / "big").stat().st_size
    with open(folder / "f", "rb") as source_file, open(folder / "g", "wb") as target:
        assert os.sendfile(target.fileno(), source_file.fileno(), 0, 100_000) == 100_000
    with open(folder / "f", "rb") as source_file, open(folder / "h", "wb") as target:
        with contextlib.suppress(OSError):
            os.copy_file_range(source_file.fileno(), target.fileno(), size)
        if not target.tell():
            shutil.copyfileobj(source_file, target)
        target.truncate(1000)
    with open(folder / "i", "wb") as target:
        os.posix_fallocate(target.fileno(), 0, 10_000)
        target.write(b"begins")


def hdf5(folder, made):
    with h5py.File(folder / "data.h5", "w") as file:
        file["x"] = np.arange(100_000.0)
    with h5py.File(folder / "data.h5", "a") as file:
        file["x"][5:10] = -1
        file["y"] = np.arange(10)
    with h5py.File(folder / "data.h5", "r") as file:
        assert file["x"][5] == -1


def zarr_python(folder, made):
    for zarr_format in (2, 3):
        group = zarr.open_group(folder / f"v{zarr_format}.zarr", mode="w", zarr_format=zarr_format)
        group.attrs["title"] = "température"
        array = group.create_array("a/b/c", shape=(10, 10), chunks=(3, 4), dtype="f4", fill_value=1)
        array[...] = np.arange(100).reshape(10, 10)
        array[2:5] = 1
        array.attrs["units"] = "K"
        array.resize((7, 10))
        group.create_array("gone", shape=(4,), chunks=(2,), dtype="i2")[:] = 7
        del group["gone"]
        zarr.consolidate_metadata(group.store)
        again = zarr.open_group(folder / f"v{zarr_format}.zarr", mode="r+")
        np.testing.assert_array_equal(again["a/b/c"][0], np.arange(10))
    sharded = zarr.create_array(
        folder / "shards.zarr", shape=(100, 100), chunks=(10, 10), shards=(50, 50), dtype="i4"
    )
    sharded[...] = np.arange(10_000).reshape(100, 100)
    sharded[20:70, 3] = 0
    with pytest.raises(zarr.errors.ContainsArrayError):
        zarr.create_array(folder / "shards.zarr", shape=(1,), dtype="i4")
    zarr.create_array(folder / "shards.zarr", shape=(4,), chunks=(2,), dtype="i4", overwrite=True)[:] = 3


def tensorstore_writes(folder, made):
    for driver in ("zarr", "zarr3"):
        spec = {
            "driver": driver,
            "kvstore": {"driver": "file", "path": f"{folder}/{driver}/"},
            "metadata": {"shape": [20, 30]},
            "dtype": "float32",
        }
        for create in ({"create": True}, {"create": True, "delete_existing": True}):
            array = tensorstore.open({**spec, **create}).result()
            writes = [array[row].write(np.arange(30, dtype="f4")) for row in range(20)]
            for write in writes:
                write.result()
        array[5:7, 3:4] = -1
        array = tensorstore.open({"driver": driver, "kvstore": spec["kvstore"]}).result()
        assert array[5, 3].read().result() == -1
        array.resize(exclusive_max=[10, 30]).result()
        with pytest.raises(ValueError, match="ALREADY_EXISTS"):
            tensorstore.open({**spec, "create": True, "open": False}).result()
    store = tensorstore.KvStore.open({"driver": "file", "path": f"{folder}/kv/"}).result()
    for key in ("a", "b/c", "b/d", "e/f/g"):
        store.write(key, key.encode()).result()
    store.delete_range(tensorstore.KvStore.KeyRange("b/", "b0")).result()
    assert sorted(store.list().result()) == [b"a", b"e/f/g"]


def dataset():
    return xr.Dataset(
        {
            "t": (("time", "y", "x"), np.arange(240.0).reshape(4, 10, 6)),
            "flag": (("time",), np.arange(4, dtype="i1")),
            "name": (("x",), np.array(["a", "bb", "", "é", "e", "f"])),
        },
        coords={
            "time": np.datetime64("2000-01-01", "ns") + np.arange(4) * np.timedelta64(1, "D"),
            "x": np.arange(6),
        },
        attrs={"title": "a test"},
    )


def xarray_writes(folder, made):
    data = dataset()
    for zarr_format in (2, 3):
        path = folder / f"v{zarr_format}.zarr"
        chunks = {"t": {"chunks": (1, 5, 6)}}
        data.to_zarr(path, zarr_format=zarr_format, encoding=chunks)
        data.to_zarr(path, mode="w", zarr_format=zarr_format, encoding=chunks)
        later = data.assign_coords(time=data.time + np.timedelta64(4, "D"))
        later.to_zarr(path, append_dim="time")
        (data[["t"]] * 2).drop_vars(["x", "time"]).to_zarr(path, region={"time": slice(2, 6)})
        data[["name"]].rename(name="added").to_zarr(path, mode="a")
        found = xr.open_zarr(path)
        assert found.sizes["time"] == 8
        np.testing.assert_array_equal(found.t[2:6], data.t * 2)
        found.close()
    tree = xr.DataTree.from_dict({"/": data, "/a": data[["flag"]], "/a/b/c": data[["t"]]})
    tree.to_zarr(folder / "tree.zarr")
    xr.testing.assert_identical(xr.open_datatree(folder / "tree.zarr", engine="zarr").load(), tree)
    delayed = data.chunk(time=1).to_zarr(folder / "delayed.zarr", compute=False)
    delayed.compute()
    xr.testing.assert_identical(xr.open_zarr(folder / "delayed.zarr").load(), data)


def netcdf_under_other_names(folder, made):
    """Libraries write back and forth in a file, lock it, and read while they append."""
    data = dataset().drop_vars("name")
    for engine in ("netcdf4", "h5netcdf"):
        path = folder / f"{engine}.data"
        data.to_netcdf(path, engine=engine)
        data[["flag"]].rename(flag="added").to_netcdf(path, mode="a", engine=engine)
        with xr.open_dataset(path, engine=engine) as found:
            np.testing.assert_array_equal(found.added, data.flag)


PROGRAMS = [
    shutil_copies,
    temporary_and_replace,
    random_access,
    maps,
    readers_beside_writers,
    locks,
    kernel_copies,
    hdf5,
    zarr_python,
    tensorstore_writes,
    xarray_writes,
    netcdf_under_other_names,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_leaves_the_same_as_locally(tools, tmp_path, program):
    made = source(tmp_path / "source")
    tools.compare(tmp_path, lambda folder: program(folder, made))


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(
        n_workers=4, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster, Client(cluster) as client:
        yield client


def test_processes_of_a_dask_cluster_write_one_array_together(tools, tmp_path, cluster):
    def work(folder):
        data = dask.array.arange(4000, chunks=100).reshape(40, 100)
        data.to_zarr(str(folder / "array.zarr"))
        whole = xr.Dataset({"t": (("time", "x"), data)})
        whole.to_zarr(folder / "data.zarr", mode="w", compute=False)
        whole.to_zarr(folder / "data.zarr", mode="a")
        np.testing.assert_array_equal(xr.open_zarr(folder / "data.zarr").t, data.compute())

    tools.compare(tmp_path, work)
