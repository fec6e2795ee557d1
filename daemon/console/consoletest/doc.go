// Package consoletest gives tests a real browser for the pages of the console.
//
//	page := consoletest.Open(t, server+"/ui/", consoletest.Look{Width: 320, Dark: true})
//	page.Click("a[href='topics']")
//	page.Await("h1", "Topics")
//	page.Axe()
//
// All pages of a test package share one chromium, which is started by the first of them. Each
// has cookies of its own. A page fails its test at the end for anything that the browser
// complained of: an exception of a script, or what the Content-Security-Policy refused.
package consoletest
