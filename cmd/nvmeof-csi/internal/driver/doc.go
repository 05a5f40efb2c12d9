// Package driver implements the services of a CSI driver: the controller with package volumes, and the node with a
// [Fabric], which makes devices of volumes, and [Mounts], which puts file systems on them.
package driver
