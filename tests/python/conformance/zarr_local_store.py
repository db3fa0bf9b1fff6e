"""zarr-python's own tests of stores, for its LocalStore in pytest's temporary folder.

Downstream projects run them so: a store class, and ways to reach its content beside it.
"""

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from zarr.core.buffer import cpu
from zarr.storage import LocalStore
from zarr.testing.stateful import ZarrHierarchyStateMachine, ZarrStoreStateMachine
from zarr.testing.store import StoreTests


class TestLocalStore(StoreTests[LocalStore, cpu.Buffer]):
    store_cls = LocalStore
    buffer_cls = cpu.Buffer

    async def get(self, store, key):
        return self.buffer_cls.from_bytes((store.root / key).read_bytes())

    async def set(self, store, key, value):
        path = store.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value.to_bytes())

    @pytest.fixture
    def store_kwargs(self, tmp_path):
        return {"root": str(tmp_path)}

    def test_store_repr(self, store):
        assert str(store) == f"file://{store.root.as_posix()}"

    def test_store_supports_writes(self, store):
        assert store.supports_writes

    def test_store_supports_listing(self, store):
        assert store.supports_listing

    async def test_empty_with_empty_subdir(self, store):
        assert await store.is_empty("")
        (store.root / "foo" / "bar").mkdir(parents=True)
        assert await store.is_empty("")

    async def test_move(self, tmp_path):
        origin, destination = tmp_path / "origin", tmp_path / "destination"
        store = await LocalStore.open(root=origin)
        await self.set(store, "a/b", self.buffer_cls.from_bytes(b"x"))
        await store.move(str(destination))
        assert store.root == destination
        assert (destination / "a" / "b").read_bytes() == b"x" and not origin.exists()


# One series of operations after the other; the store is cleared between them.
@pytest.mark.parametrize("machine", [ZarrHierarchyStateMachine, ZarrStoreStateMachine])
def test_random_operations_agree_with_a_store_in_memory(tmp_path, machine):
    class Machine(machine):
        pass

    run_state_machine_as_test(
        lambda: Machine(LocalStore(tmp_path)),
        settings=settings(
            max_examples=int(os.environ.get("CONFORMANCE_EXAMPLES", "20")),
            stateful_step_count=20,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
