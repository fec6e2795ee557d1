package snapshots

import "time"

const (
	Rhythm    = time.Second      // how old a snapshot may be
	awayAfter = 15 * time.Second // after its last count nobody looks at a topic any more
)
