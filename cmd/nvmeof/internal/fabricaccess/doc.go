// Package fabricaccess provides the devices, controllers and paths selected on the command line to the commands of
// packages nvmeverb, benchcommand and rdmatools.
package fabricaccess
