package store

import "context"

var ackScript = script("ack", promised)

// A Lease is a message that a subscriber has, and the receipt under which it does.
type Lease struct {
	Member  string
	Receipt int64 // the end of the lease in us by Redis's clock, but for its last digit
}

// Ack acknowledges messages of a topic: they are done and gone. It returns the
// indexes of those whose lease is lost.
func (s Shard) Ack(ctx context.Context, topic string, leases []Lease) (lost []int, err error) {
	r, err := s.run(ctx, ackScript, withLeases(leases, topic)...)
	if err != nil {
		return nil, err
	}
	lost = r.positions(len(leases))
	return lost, r.end()
}

// withLeases returns first, then the members of leases, then their receipts.
func withLeases(leases []Lease, first ...any) []any {
	args := make([]any, 0, len(first)+3*len(leases))
	args = append(args, first...)
	for _, l := range leases {
		args = append(args, l.Member)
	}
	for _, l := range leases {
		args = append(args, l.Receipt)
	}
	return args
}

// positions reads all that is left as positions, from 1, in a list of n, and
// returns them as indexes.
func (r *reply) positions(n int) (indexes []int) {
	for r.more() {
		at := r.integer()
		if at < 1 || at > int64(n) {
			r.fail("a position in what was given", at)
			return nil
		}
		indexes = append(indexes, int(at-1))
	}
	return indexes
}
