"""Small files at a location that may be local or remote: read, replaced atomically, moved, removed.

A location is a path, or a URI that Spark accepts. `folder` declares the operations; `local_folder` implements them on a
disk, `worker_locations` on any other file system, without a JVM. The driver of a run on Spark uses
`anchorbolt.files.hadoop` instead.
"""

from anchorbolt.files.folder import FileSystemGone as FileSystemGone
from anchorbolt.files.folder import Folder as Folder
from anchorbolt.files.folder import Locations as Locations
from anchorbolt.files.paths import BaseLocation as BaseLocation
from anchorbolt.files.paths import join as join
from anchorbolt.files.paths import local_path as local_path
from anchorbolt.files.worker_locations import WorkerLocations as WorkerLocations
from anchorbolt.files.worker_locations import open_folder as open_folder
