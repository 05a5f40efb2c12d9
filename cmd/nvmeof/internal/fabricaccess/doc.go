// Package fabricaccess gives the commands of packages nvmeverb and benchcommand the controllers and
// paths that the command line names.
package fabricaccess
