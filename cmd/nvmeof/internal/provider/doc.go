// Package provider opens RDMA devices of the two providers, softroce and verbs, and chooses between them: for an
// address of this machine ([Open]), or for the route to a target ([Options.OpenDevice]).
package provider
