"""Small files at a location that may be local or remote: read, replaced atomically, moved, removed.

A location is a path, or a URI as Spark takes it. `folder` says what can be done there, and in which processes;
`local_folder` does it on a disk, `remote_folder` without a JVM on any other file system. The driver of a run on Spark
uses `anchorbolt.engine.spark.locations` instead.
"""

from anchorbolt.util.locations.folder import FileSystemGone as FileSystemGone
from anchorbolt.util.locations.folder import Folder as Folder
from anchorbolt.util.locations.folder import Locations as Locations
from anchorbolt.util.locations.folder import NoWebServer as NoWebServer
from anchorbolt.util.locations.paths import BaseLocation as BaseLocation
from anchorbolt.util.locations.paths import join as join
from anchorbolt.util.locations.paths import local_path as local_path
from anchorbolt.util.locations.worker_locations import WorkerLocations as WorkerLocations
from anchorbolt.util.locations.worker_locations import open_folder as open_folder
