// Package product contains what the tests of products share: benches, the real Puppet Server,
// and a small application that registers hosts.
package product
