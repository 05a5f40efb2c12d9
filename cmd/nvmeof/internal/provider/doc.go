// Package provider opens RDMA devices of the two providers, softroce and verbs, and chooses
// between them: at an address of this machine ([Open]), or at the one from which a target is
// reached ([Options.OpenDevice]).
package provider
