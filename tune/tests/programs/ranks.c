/* Pairs of MPI's ranks send each other arrays; usage: ranks SECONDS BYTES. The first rank prints how long a
 * round trip took, in microseconds. The program ends earlier if the file that the variable STOP names comes
 * into being. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char array[8 << 20];

int main(int c, char **v) {
    int rank, go = 1;
    MPI_Init(&c, &v);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double begin = MPI_Wtime(), line = begin;
    int bytes = atoi(v[2]), peer = rank ^ 1;
    long rounds = 0;
    while (go) {
        if (rank % 2 == 0) {
            go = MPI_Wtime() - begin < atof(v[1]);
            if (rounds % 16 == 0 && getenv("STOP") && !access(getenv("STOP"), F_OK)) go = 0;
            array[0] = go;
            MPI_Send(array, bytes, MPI_CHAR, peer, 0, MPI_COMM_WORLD);
            MPI_Recv(array, bytes, MPI_CHAR, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(array, bytes, MPI_CHAR, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            go = array[0];
            MPI_Send(array, bytes, MPI_CHAR, peer, 0, MPI_COMM_WORLD);
        }
        rounds++;
        if (rank == 0 && MPI_Wtime() - line > 0.2) {
            printf("%.3f %d %.2f\n", MPI_Wtime() - begin, bytes, (MPI_Wtime() - line) * 1e6 / rounds);
            fflush(stdout);
            line = MPI_Wtime();
            rounds = 0;
        }
    }
    if (rank == 0) puts("done");
    MPI_Finalize();
    return 0;
}
