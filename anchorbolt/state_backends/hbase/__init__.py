"""State in HBase: the only package that imports HBase's Thrift client. `provider` lists the rows."""

from anchorbolt.state_backends.hbase.provider import HBaseStateProvider

__all__ = ["HBaseStateProvider"]
