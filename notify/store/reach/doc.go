// Package reach reaches Redis: it connects, finds the server that holds each shard of a
// store, calls transitions there, and keeps subscriptions. It knows no transition but those
// that found a store and prove a subscription.
//
// A [Redis] is one prefix in a Redis, a master that sentinels watch, or a Cluster; a [Shard]
// of it is what one hash tag holds. [Shard.Run] calls a transition (call.go): on a server that
// was found fit for messages (fit.go), whose user has the rights (rehearse.go), which holds
// a store of this format (format.go) with so many shards (learn.go). master.go follows a
// shard to another server. A store of one shard has a connection for each subscription
// (subscribe.go), one of several shards one to each server (wire.go, ear.go).
package reach
