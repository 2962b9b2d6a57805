// Package product has what the tests of products share, the real Puppet Server, and a small
// application that registers hosts.
package product
