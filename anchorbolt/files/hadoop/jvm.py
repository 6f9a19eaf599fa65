"""The driver's calls of Hadoop beyond its `FileSystem`, with as few calls through py4j as possible."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession


class Hadoop:
    """The Hadoop of a Spark session: its classes, and the session's configuration."""

    def __init__(self, session: SparkSession) -> None:
        gateway: Any = session.sparkContext._gateway
        self._gateway, self._jvm = gateway, gateway.jvm
        self.configuration: Any = session._jsparkSession.sessionState().newHadoopConf()
        self.classes: Any = self._jvm.org.apache.hadoop
        self.fs: Any = self.classes.fs
        rename = self.fs.Options.Rename
        self._overwrite = self._gateway.new_array(rename, 1)
        self._overwrite[0] = rename.OVERWRITE

    def path(self, location: str) -> Any:
        return self.fs.Path(location)

    def file_system(self, location: str) -> Any:
        """Return the file system of a location; the whole JVM shares it."""
        return self.path(location).getFileSystem(self.configuration)

    def rename_over(self, origin: Any, target: Any) -> None:
        """Rename a file, replacing an existing file; atomic on HDFS."""
        context = self.fs.FileContext.getFileContext(target.toUri(), self.configuration)
        context.rename(origin, target, self._overwrite)

    def listed(self, statuses: Any) -> Any:
        """Return the paths of an array of `FileStatus`, as a Java list."""
        paths = self.fs.FileUtil.stat2Paths(self._as_array_of(self.fs.FileStatus, statuses))
        return self._jvm.java.util.Arrays.asList(self._as_array_of(self._jvm.java.lang.Object, paths))

    def _as_array_of(self, kind: Any, array: Any) -> Any:
        """Copy an array: py4j cannot pass an array of a subclass to a method."""
        copied = self._gateway.new_array(kind, len(array))
        self._jvm.java.lang.System.arraycopy(array, 0, copied, 0, len(array))
        return copied

    def without(self, paths: Sequence[str], others: Any) -> list[str]:
        """Return the paths that are not in a Java list of paths."""
        texts = self._jvm.java.util.regex.Pattern.compile("\n").split("\n".join(paths))
        of_java = self._as_array_of(self._jvm.java.lang.Object, self.classes.util.StringUtils.stringToPath(texts))
        left = self._jvm.java.util.ArrayList(self._jvm.java.util.Arrays.asList(of_java))
        left.removeAll(self._jvm.java.util.HashSet(others))
        return self.texts(left)

    def texts(self, items: Any) -> list[str]:
        """Return the texts of a Java collection; they must not contain line ends."""
        text: str = self.classes.util.StringUtils.join("\n", items)
        return text.split("\n") if text else []
