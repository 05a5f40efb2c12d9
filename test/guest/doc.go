// Package guest boots a stock Debian 13 under QEMU and runs bash in it, so that
// tests can let an unmodified Linux kernel judge us: its kernel has rdma_rxe,
// nvme-rdma, nvmet-rdma and netem, its user space nvme-cli, fio, rdma-core,
// perftest and tcpdump.
//
// [Find] returns the disk image, which [Image.Build] makes once and keeps
// outside the source tree. [Boot] starts a guest on a snapshot of it, so
// nothing that a test does to the disk lasts. The first guest of a kind boots and is
// saved beside the image; others start from that, in a second. A directory of the caller's is
// visible inside as /mnt/host, read and write. [Guest.Run] executes a script
// and returns what it printed.
//
// The guest is emulated (TCG), since continuous integration seldom has hardware
// virtualisation: it boots in about 20 s and is right for behaviour, not speed.
// Nothing here needs root, except building the image.
package guest
