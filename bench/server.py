"""The server behind the wire: start it, shape the wire, read its counters."""

import json
import subprocess
import urllib.request
from pathlib import Path


class Server:
    """Runs `bench_server`; ends it on leaving the `with` block."""

    def __init__(self, binary, folder):
        self.binary, self.folder = binary, Path(folder)

    def __enter__(self):
        self.process = subprocess.Popen([self.binary, self.folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.place = json.loads(self.process.stdout.readline())
        return self.place

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


def control(place, command, **values):
    """`set`, `reset` or `counts`; answers with the counters."""
    query = "&".join(f"{name}={value}" for name, value in values.items())
    return json.load(urllib.request.urlopen(f"{place['control']}/{command}?{query}"))


def store(place, at, prefix=None):
    """The bucket through obstore. `at` is `endpoint`, `tls` or `direct`."""
    from obstore.store import S3Store

    return S3Store(
        place["bucket"],
        prefix=prefix,
        endpoint=place[at],
        access_key_id=place["access_key"],
        secret_access_key=place["secret_key"],
        region="us-east-1",
        virtual_hosted_style_request=False,
        client_options={"allow_http": True, "allow_invalid_certificates": True, "timeout": "600s"},
    )


def sizes(place, prefix):
    """Name and size of every object below `prefix`; markers of folders left out."""
    import obstore

    found = obstore.list(store(place, "direct"), prefix).collect()
    named = {meta["path"][len(prefix) + 1 :]: meta["size"] for meta in found}
    return {name: size for name, size in named.items() if name}


def clear(place, prefix):
    """Deletes every object below `prefix`."""
    import obstore

    bucket = store(place, "direct")
    for batch in obstore.list(bucket, prefix, chunk_size=500):
        obstore.delete(bucket, [meta["path"] for meta in batch])
