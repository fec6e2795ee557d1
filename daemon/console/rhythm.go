package console

import "time"

const (
	rhythm  = time.Second      // of streams, and how old a snapshot may be
	quiet   = 15 * time.Second // after which a stream says that it is alive, so that no proxy closes it
	silence = 40 * time.Second // after which a page takes its stream for lost
)
