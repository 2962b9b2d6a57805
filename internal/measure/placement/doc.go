// Package placement shows where memory, CPUs and devices are on a machine with several NUMA
// nodes, and where they fit better: fettle numa show, advise and run, and numastat's tables. In: the
// facts and tables of the nodes (package fact), and the files of processes below /proc. Out:
// documents, grids and text.
package placement
