// Package hostconfig reads the files by which a host says what it connects to, as
// nvme-cli has them in /etc/nvme:
//
//   - discovery.conf: one discovery controller per line, given as options of
//     nvme discover;
//   - config.json, of nvme-cli 2: hosts, their subsystems and the ports of those;
//   - nvme-fabrics.conf and nvme-fabrics.conf.d/*.conf, of nvme-cli 3: sections of
//     keys, with defaults per kind of controller.
//
// All three come to the same [Entry]: the long options of nvme connect, by name.
// The text is all that a parser sees, so that what a file means depends on nothing
// else; [Load] reads those of a folder.
//
// An entry of another transport than RDMA is no mistake, since a file may be shared
// with the kernel's host: it is reported as [Skipped]. What cannot be right is a
// [config.Problem] with file, line and what to write instead, and takes only the
// entry it stands in away, but for mistakes about who the host is: those take the
// file away, since its other entries would connect as somebody else.
//
// # Limits
//
// Keys in a kernel keyring, TLS and digests do not exist over RDMA and are refused;
// write and poll queues are ignored with a warning. The exclusion list and the
// registry of nvme-cli 3 are not read, nor is the firmware's table (NBFT).
package hostconfig
