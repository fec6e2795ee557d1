package snapshots

import "time"

const (
	Rhythm     = time.Second      // how old the counts of a topic may be
	storeEvery = 3 * time.Second  // how old what is of the whole store may be: to read that takes several calls
	awayAfter  = 15 * time.Second // after its last count nobody looks at a topic any more
)
