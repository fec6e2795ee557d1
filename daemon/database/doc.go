// Package database reaches the PostgreSQL databases of which users give the addresses: that
// of the archive, and those of outboxes. It reads their URLs, shows them without passwords,
// says how connections are made, and tells what an error of a database means.
//
// What Bellhop keeps in a database has the schema bellhop. Whoever changes that holds its
// lock, see [Change].
package database
