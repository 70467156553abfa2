// Package docs keeps the documentation true. Its tests run the commands that the README and the files
// under docs show and compare what they print, follow the links between the files, and look up the make
// targets that they name. It has no code besides its tests.
package docs
