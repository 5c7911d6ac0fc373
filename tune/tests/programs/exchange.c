/* MPI's ranks exchange data, each with all others; usage: exchange SECONDS BYTES [v], where BYTES go to each rank, and
 * `v` exchanges by MPI_Alltoallv. The first rank prints how long an exchange took, in microseconds. Each rank checks
 * what it gets. The program ends earlier if the file that the variable STOP names comes into being. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int c, char **v) {
    int rank, ranks, go = 1;
    MPI_Init(&c, &v);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int count = atoi(v[2]) / sizeof(int), counts[ranks], places[ranks];
    int *from = calloc(count, ranks * sizeof(int)), *into = calloc(count, ranks * sizeof(int));
    for (int r = 0; r < ranks; r++) {
        counts[r] = count;
        places[r] = r * count;
    }
    double begin = MPI_Wtime(), line = begin;
    long rounds = 0, before = 0;
    while (go) {
        for (int r = 0; r < ranks; r++)
            for (int at = 0; at < count; at += 1000) from[r * count + at] = rounds + rank * 1000 + r * 100 + at;
        if (c > 3)
            MPI_Alltoallv(from, counts, places, MPI_INT, into, counts, places, MPI_INT, MPI_COMM_WORLD);
        else
            MPI_Alltoall(from, count, MPI_INT, into, count, MPI_INT, MPI_COMM_WORLD);
        for (int r = 0; r < ranks; r++)
            for (int at = 0; at < count; at += 1000)
                if (into[r * count + at] != rounds + r * 1000 + rank * 100 + at) MPI_Abort(MPI_COMM_WORLD, 5);
        rounds++;
        if (rank == 0) {
            go = MPI_Wtime() - begin < atof(v[1]);
            if (getenv("STOP") && !access(getenv("STOP"), F_OK)) go = 0;
            if (MPI_Wtime() - line > 0.2) {
                printf("%.3f %d %.2f\n", MPI_Wtime() - begin, count * 4, (MPI_Wtime() - line) * 1e6 / (rounds - before));
                fflush(stdout);
                line = MPI_Wtime();
                before = rounds;
            }
        }
        MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0) puts("done");
    MPI_Finalize();
    return 0;
}
