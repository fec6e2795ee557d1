// Package outbox publishes in the transactions of a PostgreSQL database.
//
// [Install] makes a table in the schema bellhop, and a function that writes to it in the
// caller's transaction:
//
//	SELECT bellhop.publish('order.timeout', '{"total":12}', id => 'order-4711', delay => '30m')
//
// A row is there once the transaction commits, and never if it is rolled back. The relay of the
// elected daemon publishes rows, in the order of the calls, and removes them. The function checks
// what it is asked for as a publish does, by the same descriptions of fields, and refuses what is
// wrong in the statement itself.
//
// The relay sleeps while nothing is there. A notification at each commit would take a lock of the
// whole server, so publishers notify only while the relay holds an advisory lock, which it does
// while it sleeps; and it cannot take that while a publisher is open that did not notify.
//
// What a row holds is published and noted in Redis in one step, and the row is deleted behind that. A
// relay that begins, since another one was killed or an answer was lost, deletes the rows that are
// noted and publishes all others: each row is published once. Rows wait while Redis takes nothing;
// what is wrong with one row for good is written to it, and holds nothing back.
package outbox
