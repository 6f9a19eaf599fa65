"""Storm's configuration keys that are accepted and have no effect here.

So a `storm.yaml`, or a topology's own configuration, can be used unchanged. The table in `docs/configuration.md` gives
the reason for each key; a test compares the two.
"""

_BY_PREFIX = {
    "topology.": """
        acker.cpu.pcore.percent acker.resources.offheap.memory.mb acker.resources.onheap.memory.mb
        ackers auto-credentials auto.task.hooks backpressure.check.millis
        backpressure.wait.park.microsec backpressure.wait.progressive.level1.count
        backpressure.wait.progressive.level2.count backpressure.wait.progressive.level3.sleep.millis
        backpressure.wait.strategy batch.flush.interval.millis blobstore.map bolt.wait.park.microsec
        bolt.wait.progressive.level1.count bolt.wait.progressive.level2.count bolt.wait.progressive.level3.sleep.millis
        bolt.wait.strategy bolts.late.tuple.stream bolts.message.id.field.name bolts.outgoing.overflow.buffer.enable
        bolts.tuple.timestamp.field.name bolts.tuple.timestamp.max.lag.ms bolts.watermark.event.interval.ms
        bolts.window.length.count bolts.window.length.duration.ms bolts.window.sliding.interval.count
        bolts.window.sliding.interval.duration.ms builtin.metrics.bucket.size.secs classpath classpath.beginning
        component.cpu.pcore.percent component.resources.map component.resources.offheap.memory.mb
        component.resources.onheap.memory.mb debug disable.loadaware disable.loadaware.messaging disruptor.batch.size
        disruptor.batch.timeout.millis disruptor.wait.strategy disruptor.wait.timeout.millis
        enable.v2.metrics.tick environment error.throttle.interval.secs event.logger.register eventlogger.executors
        executor.overflow.limit executor.receive.buffer.size executor.send.buffer.size fall.back.on.java.serialization
        groups isolate.machines kryo.decorators kryo.factory kryo.register localityaware.higher.bound
        localityaware.lower.bound logging.config logging.sensitivity max.error.report.per.interval
        max.replication.wait.time.sec max.task.parallelism metrics.aggregate.metric.evict.secs
        metrics.aggregate.per.worker metrics.consumer.cpu.pcore.percent metrics.consumer.register
        metrics.consumer.resources.offheap.memory.mb metrics.consumer.resources.onheap.memory.mb metrics.expand.map.type
        metrics.metric.name.separator min.replication.count multilang.log.handler multilang.serializer priority
        producer.batch.size ras.constraint.max.state.search ras.constraint.max.time.secs ras.constraints
        ras.one.component.per.worker ras.one.executor.per.worker ras.order.executors.by.proximity.needs readonly.groups
        readonly.users receiver.buffer.size scheduler.favored.nodes scheduler.strategy scheduler.unfavored.nodes
        serialized.message.size.metrics shellbolt.max.pending skip.missing.kryo.registrations
        sleep.spout.wait.strategy.time.ms spout.recvq.skips spout.wait.park.microsec spout.wait.progressive.level1.count
        spout.wait.progressive.level2.count spout.wait.progressive.level3.sleep.millis spout.wait.strategy
        spread.components state.kryo.register state.synchronization.timeout.secs stats.sample.rate submitter.principal
        submitter.user subprocess.timeout.secs tasks testing.always.try.serialize transactional.id
        transfer.batch.size transfer.buffer.size trident.batch.emit.interval.millis trident.parallelism.hint
        trident.windowing.cache.tuple.limit tuple.serializer users version worker.childopts worker.gc.childopts
        worker.logwriter.childopts worker.max.heap.size.mb worker.metrics worker.receiver.thread.count
        worker.shared.thread.pool.size worker.timeout.secs
    """,
    "storm.": """
        auth.simple-acl.admins auth.simple-acl.users auth.simple-acl.users.commands auth.simple-white-list.users
        blobstore.acl.validation.enabled blobstore.dependency.jar.upload.chunk.size.bytes
        blobstore.inputstream.buffer.size.bytes blobstore.replication.factor cgroup.cgexec.cmd cgroup.hierarchy.dir
        cgroup.hierarchy.name cgroup.inherit.cpuset.configs cgroup.memory.enforcement.enable
        cgroup.memory.limit.tolerance.margin.mb cgroup.resources cluster.metrics.consumer.publish.interval.secs
        cluster.metrics.consumer.register cluster.mode cluster.state.store codedistributor.class
        daemon.metrics.reporter.csv.log.dir daemon.metrics.reporter.interval.secs daemon.metrics.reporter.plugin.domain
        daemon.metrics.reporter.plugin.duration.unit daemon.metrics.reporter.plugin.locale
        daemon.metrics.reporter.plugin.rate.unit daemon.metrics.reporter.plugins disable.symlinks doAsUser
        exhibitor.poll.millis exhibitor.poll.uripath exhibitor.port exhibitor.retry.interval
        exhibitor.retry.intervalceiling.millis exhibitor.retry.times exhibitor.servers group.mapping.service
        group.mapping.service.cache.duration.secs group.mapping.service.params hdfs.login.keytab hdfs.login.principal
        health.check.dir health.check.timeout.ms id local.dir local.hostname local.mode.zmq log4j2.conf.dir
        logback.conf.dir messaging.netty.authentication messaging.netty.buffer.high.watermark
        messaging.netty.buffer.low.watermark messaging.netty.buffer_size messaging.netty.client_worker_threads
        messaging.netty.flush.check.interval.ms messaging.netty.max_retries messaging.netty.max_wait_ms
        messaging.netty.min_wait_ms messaging.netty.server_worker_threads messaging.netty.socket.backlog
        messaging.netty.transfer.batch.size messaging.transport meta.serialization.delegate metrics.reporters
        network.topography.plugin nimbus.retry.interval.millis nimbus.retry.intervalceiling.millis nimbus.retry.times
        nimbus.zookeeper.acls.check nimbus.zookeeper.acls.fixup principal.tolocal resource.isolation.plugin
        resource.isolation.plugin.enable scheduler supervisor.cgroup.rootdir supervisor.worker.manager.plugin
        thrift.socket.timeout.ms thrift.transport topology.classpath.beginning.enabled
        topology.submission.notifier.plugin.class workers.artifacts.dir zookeeper.auth.password zookeeper.auth.payload
        zookeeper.auth.scheme zookeeper.auth.user zookeeper.connection.timeout zookeeper.drpcACL zookeeper.port
        zookeeper.retry.interval zookeeper.retry.intervalceiling.millis zookeeper.retry.times zookeeper.root
        zookeeper.servers zookeeper.session.timeout zookeeper.superACL zookeeper.topology.auth.payload
        zookeeper.topology.auth.scheme
    """,
}

STORM_KEYS = tuple(prefix + name for prefix, names in _BY_PREFIX.items() for name in names.split())

STORM_SECRETS = frozenset(key for key in STORM_KEYS if key.endswith((".password", ".payload")))
"""The keys with a secret, which bolts do not get."""
