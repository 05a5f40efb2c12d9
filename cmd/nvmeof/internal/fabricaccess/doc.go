// Package fabricaccess gives the commands of packages nvmeverb, benchcommand and rdmatools the devices, controllers and
// paths that the command line names.
package fabricaccess
