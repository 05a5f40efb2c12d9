package metrics

// families are the metrics of a target.
type families struct {
	build, start *family

	subsystem, subsystemNamespaces, subsystemHosts *family

	namespace, size, used, ready, inFlight       *family
	commands, bytes, errors, duration, backend   *family
	fabric                                       *family
	reservation, registrants                     *family
	controllers, queues                          *family
	auth, admission, limits, undelivered, slowed *family
	requests, shardBusy, shardLoop               *family
	conflicts, listeners, spare                  *family

	connects, rejects, disconnects, keepAlives, admin, asyncEvents, aborts *family
	ana, anaChanges, discoveries, reservations, hosts, control, log        *family
}

func newFamilies() *families {
	return &families{
		build: gauge("nvmf_build_info", "Build of the program, always 1.", "version", "revision", "goversion"),
		start: gauge("nvmf_start_time_seconds", "Start time of the target, in Unix time."),

		subsystem:           gauge("nvmf_subsystem_info", "A subsystem, always 1.", "nqn", "serial", "model", "allow_any_host"),
		subsystemNamespaces: gauge("nvmf_subsystem_namespaces", "Namespaces of the subsystem.", "nqn"),
		subsystemHosts:      gauge("nvmf_subsystem_hosts_allowed", "Hosts that are allowed by NQN.", "nqn"),

		namespace: gauge("nvmf_namespace_info", "A namespace, always 1.", "nqn", "nsid", "uuid", "backend", "source", "ana_group"),
		size:      gauge("nvmf_namespace_size_bytes", "Size as hosts see it.", "nqn", "nsid"),
		used:      gauge("nvmf_namespace_used_bytes", "Allocated bytes of the store; its size if that is unknown.", "nqn", "nsid"),
		ready:     gauge("nvmf_namespace_ready", "1 while the namespace is served, here or by another gateway; 0 while its store is missing, has failed or does not answer.", "nqn", "nsid"),
		inFlight:  gauge("nvmf_commands_in_flight", "I/O commands that were received and are not completed yet.", "nqn", "nsid"),
		commands:  counter("nvmf_commands_total", "I/O commands that were completed.", "nqn", "nsid", "op"),
		bytes:     counter("nvmf_data_bytes_total", "Data of successful Reads and Writes.", "nqn", "nsid", "direction"),
		errors:    counter("nvmf_command_errors_total", "I/O commands that failed, by status code type and status code; nsid is empty if the namespace does not exist.", "nqn", "nsid", "sct", "sc"),
		duration:  histogram("nvmf_command_duration_seconds", "Time from the arrival of a command's capsule until its response was sent.", "nqn", "nsid", "op"),
		backend:   histogram("nvmf_backend_duration_seconds", "Time of commands in the store, a part of nvmf_command_duration_seconds.", "nqn", "nsid", "op"),
		fabric:    histogram("nvmf_fabric_duration_seconds", "Time of data transfers: RDMA READs for Writes (op write), RDMA WRITEs for Reads until they were acknowledged (op read).", "op"),

		reservation: gauge("nvmf_reservation_info", "1 while the namespace is reserved.", "nqn", "nsid", "type"),
		registrants: gauge("nvmf_reservation_registrants", "Hosts that are registered for reservations.", "nqn", "nsid"),

		controllers: gauge("nvmf_controllers", "Controllers of connected hosts, by kind: io or discovery.", "nqn", "kind"),
		queues:      gauge("nvmf_queue_pairs", "Connected queues, by kind: admin or io.", "kind"),

		auth:        counter("nvmf_auth_total", "Authentications, by result.", "result"),
		admission:   counter("nvmf_connections_dropped_total", "Connections that were dropped before they had authenticated or sent Connect, to make room for others or at a timeout.", "reason"),
		limits:      counter("nvmf_controller_limits_total", "Controllers that were refused or ended by limits: refused, displaced, unanswered.", "result"),
		undelivered: counter("nvmf_undelivered_queues_total", "Connections that were ended because their hosts responded but accepted nothing of what they were sent."),
		slowed:      counter("nvmf_slowed_queues_total", "Times that a queue was limited because others waited for data that its host did not deliver."),
		requests:    counter("nvmf_connect_requests_dropped_total", "Connection requests that the RDMA device itself refused.", "reason"),

		listeners: gauge("nvmf_listeners", "Open listeners."),
		spare:     gauge("nvmf_namespace_spare_ratio", "Share of the bytes that the store may still allocate for which its file system has space, from 0 to 1; 1 if the store is preallocated.", "nqn", "nsid"),
		conflicts: counter("nvmf_reservation_conflicts_total", "I/O commands that failed with a reservation conflict.", "nqn", "nsid"),

		connects:    counter("nvmf_connects_total", "Connect commands, one for each queue, by result: ok, or the reason of the failure.", "result"),
		rejects:     counter("nvmf_connect_rejects_total", "Connection requests that were rejected, by the status of the reject message.", "reason"),
		disconnects: counter("nvmf_disconnects_total", "Queues that ended, by reason: host, lost, keepalive, admin and others; and by kind: admin or io.", "reason", "kind"),
		keepAlives:  counter("nvmf_keepalive_timeouts_total", "Controllers whose keep alive timeout expired.", "nqn"),
		admin:       counter("nvmf_admin_commands_total", "Admin and fabrics commands, by command and result: ok, or status code type and status code.", "opcode", "result"),
		asyncEvents: counter("nvmf_async_events_total", "Asynchronous events that were reported to hosts.", "type"),
		aborts:      counter("nvmf_aborts_total", "I/O commands that were aborted: by the host, at a disconnect, or by a preemption.", "cause"),

		ana:          gauge("nvmf_ana_state", "1 for the ANA state of the group through the listener, 0 for the other states; for groups with namespaces of the subsystem.", "nqn", "listener", "group", "state"),
		anaChanges:   counter("nvmf_ana_changes_total", "Changes of ANA states, at each listener, by the new state.", "group", "to"),
		discoveries:  counter("nvmf_discovery_requests_total", "Reads of the discovery log page, by result: ok, or status code type and status code.", "result"),
		reservations: counter("nvmf_reservation_changes_total", "Reservation commands, by action: register, unregister, replace, acquire, preempt, preempt_abort, release or clear; and by result: ok, or status code type and status code.", "action", "result"),
		hosts:        gauge("nvmf_host_connected", "1 for each connected host and address; only if metrics.hosts (--metrics-hosts) is set, since the number of series grows with the hosts.", "nqn", "host_nqn", "host_address"),
		control:      counter("nvmf_control_requests_total", "Requests to the control API, by route and HTTP status.", "method", "route", "code"),
		log:          counter("nvmf_log_events_total", "Lines of the log, by level.", "level"),

		shardBusy: counter("nvmf_shard_busy_seconds_total", "Time in which the shard was not idle.", "shard"),
		shardLoop: histogram("nvmf_shard_loop_seconds", "Duration of the turns of the shard's loop in which it was not idle.", "shard"),
	}
}
