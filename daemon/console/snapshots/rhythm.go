package snapshots

import "time"

const (
	Rhythm     = time.Second      // how old the counts of a topic may be
	StoreEvery = 5 * time.Second  // how old what is of the whole store may be, and the counts of topics beside that
	awayAfter  = 15 * time.Second // after its last count nobody looks at a topic any more
)
