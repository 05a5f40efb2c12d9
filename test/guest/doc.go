// Package guest boots a stock Debian 13 under QEMU and runs bash in it, so that tests can run this module against an
// unmodified Linux kernel. Its kernel has rdma_rxe, nvme-rdma, nvmet-rdma and netem, its user space nvme-cli, fio,
// rdma-core, perftest and tcpdump.
//
// [Find] returns the disk image, which [Image.Build] makes once and keeps outside the source tree. [Boot] starts a
// guest on a snapshot of it, so nothing that a test does to the disk lasts. The first guest of a kind boots and is
// saved beside the image; other guests start from the saved state within a second. The guest sees a directory of the
// caller as /mnt/host, readable and writable. [Guest.Run] executes a script and returns its output.
//
// The guest is emulated (TCG), since continuous integration seldom has hardware virtualisation. It boots in about 20 s,
// and is suited to test behaviour, not speed. Nothing here needs root, except building the image.
package guest
