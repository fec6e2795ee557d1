// Package calendar says when a schedule fires. It knows no Redis and no clock: a [Rule] is a function of time.
//
//	rule, err := calendar.Spec{Cron: "30 2 1 * *", Zone: "Europe/Berlin"}.Parse()
//	...
//	next, ok := rule.Next(time.Now())
//
// # Rules
//
// A rule is one of three. Cron has five fields, or six with the seconds first:
//
//	second  0-59                minute 0-59     hour 0-23
//	day of the month 1-31       month 1-12, JAN-DEC
//	day of the week 0-7, SUN-SAT, both 0 and 7 are Sunday
//
// A field is * or a list of N and N-M; *, and N-M, may end with /STEP. It is one of @hourly, @daily, @weekly, @monthly and @yearly
// instead. A rule may restrict the day of the month or the day of the week. One that restricts both is refused: cron(8) fires
// on either, most people who write it mean both, and two schedules say the first without a doubt.
//
// Every fires each so many seconds, counted from From, else from the beginning of 1970 in UTC: so an edit of a schedule does not
// shift it. At is a list of times.
//
// # Where the wall clock is changed
//
// The fields of cron are those of the wall clock of a zone. As cron(8) has it, two kinds of rules differ where that is changed:
//
//   - A rule with fixed times has no * in its minutes and its hours. It fires when the wall clock first reaches or passes such a
//     time. So a time in a gap fires at the end of the gap, several of one gap once, and one in an hour that is repeated once, the
//     first time. A day that a zone leaves out is a gap.
//   - A rule with *, or */STEP, in its minutes or its hours fires whenever the wall clock shows such a time: never in a gap, and in
//     an hour that is repeated both times. So */30 fires each half hour of elapsed time.
//
// Every and At know no wall clock.
//
// # Work
//
// Next goes from one change of the wall clock to the next, and in between from month to month; it looks at no minute by itself.
// A rule fires at least once in eight years, or is refused since it never does, so a call takes at the most some dozen steps.
//
// # Zones
//
// The rules of the zones are those of the program, from zoneinfo.zip, not those of the machine: all daemons of one version agree, and
// [Version] is the version of the IANA's data that they are from. make zones takes both from the Go that builds.
package calendar
