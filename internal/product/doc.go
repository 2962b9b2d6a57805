// Package product is what fettle knows of server products. In: the files of a product on a
// machine, and what its running program answers. Out: the values of its options in three
// places (intended, in the file, running), inputs for rules, and a kind of setting that
// writes its options through the journal and reloads or restarts it.
//
// This package has what all products share: parameters, packages, processes, start and
// stop. The rooms below it:
//
//	conf          reads and changes one assignment of a configuration file, every other byte stays
//	accesslog     the formats of request logs that servers' configurations name
//	table         the list of all products
//	etcd, foreman, haproxy, httpd, kubelet, mosquitto, nginx, postgresql,
//	prometheus, puppetserver, qpid, redis
//	              one product each; foreman is Puma and Dynflow
package product
