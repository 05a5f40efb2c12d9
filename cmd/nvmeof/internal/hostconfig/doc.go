// Package hostconfig reads the files in which a host configures its connections, in the formats of nvme-cli in
// /etc/nvme:
//
//   - discovery.conf: one discovery controller per line, given as options of nvme discover;
//   - config.json, of nvme-cli 2: hosts, their subsystems and the ports of those;
//   - nvme-fabrics.conf and nvme-fabrics.conf.d/*.conf, of nvme-cli 3: sections of keys, with defaults per kind of
//     controller.
//
// Each format is converted to entries of type [Entry], which contain the long options of nvme connect by name. A parser
// receives only the text, so that the meaning of a file depends on nothing else. [Load] reads the files of a directory.
//
// An entry for a transport other than RDMA is not an error, since a file may be shared with the kernel's host: it is
// reported as [Skipped]. Invalid content is reported as a [config.Problem] with file, line and remedy. It invalidates
// only the entry that contains it. An invalid host identity invalidates the whole file, because its other entries would
// connect as another host.
//
// # Limits
//
// Keys in a kernel keyring, TLS and digests do not exist over RDMA and are rejected; write and poll queues are ignored
// with a warning. The exclusion list and the registry of nvme-cli 3 are not read, nor is the firmware's table (NBFT).
package hostconfig
