"""State in HBase: the only package that imports HBase's Thrift client. `provider` says which row holds what."""

from anchorbolt.state_backends.hbase.provider import HBaseStateProvider

__all__ = ["HBaseStateProvider"]
