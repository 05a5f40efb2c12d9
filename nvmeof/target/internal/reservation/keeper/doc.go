// Package keeper keeps the reservation of one volume: the state as it is now, for shards
// to read, the next one made of it a change at a time, and what has to survive a power
// loss in a [Store].
//
// A [Keeper] owns the state. Changes may block, so they are made outside of the shards;
// readers take no lock.
package keeper
