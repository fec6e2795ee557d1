// Package postgres starts PostgreSQL servers of its own for tests.
package postgres
