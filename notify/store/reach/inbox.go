package reach

// An Inbox is where a subscriber is rung: one channel in each shard where the inbox waits
// for topics. The zero Inbox waits for none.
type Inbox struct {
	id    string
	hands bool // it takes hand-overs
}

// NewInbox returns an inbox of a subscriber. The payload of what it receives is a topic to
// claim from, or if it takes hand-overs perhaps a message.
func NewInbox(id string, takesHandovers bool) Inbox { return Inbox{id: id, hands: takesHandovers} }

// inbox returns the name of an inbox in the shard. In a Cluster with one shard none takes
// hand-overs, because a PUBLISH goes to all of its servers.
func (d *shard) inbox(i Inbox) string {
	switch {
	case i.id == "":
		return ""
	case i.hands && (d.isSharded() || !d.inCluster()):
		return d.keys.Hands(i.id)
	}
	return d.keys.Inbox(i.id)
}
