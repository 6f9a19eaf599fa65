"""The public conformance suite: the requirements on every `StateProvider`, as tests that its author runs with pytest.

```python
import pytest
from anchorbolt.testing.conformance import StateStorageConformance

class TestMyProvider(StateStorageConformance):
    @pytest.fixture
    def provider(self):
        yield MyProvider(...)
```

The store may hold other namespaces, and need not be emptied between tests: each test writes to new namespaces with
names that start with `conformance`. To see values in failures, call
`pytest.register_assert_rewrite("anchorbolt.testing")` in your `conftest.py`. Nothing here measures time.
"""

from anchorbolt.testing.conformance.data import DataConformance
from anchorbolt.testing.conformance.fences import FenceConformance
from anchorbolt.testing.conformance.steps import StepConformance

__all__ = ["StateStorageConformance"]


class StateStorageConformance(FenceConformance, StepConformance, DataConformance):
    """Subclass it, with a name that pytest collects, and with a fixture `provider` that returns a `StateProvider`."""
