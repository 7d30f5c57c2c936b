# The CUDA language and toolkit. Programs are built for Ampere and Hopper, and for the GPU of this machine if there is one,
# unless CMAKE_CUDA_ARCHITECTURES or CUDAARCHS in the environment says otherwise.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
  set(CMAKE_CUDA_ARCHITECTURES 80 90)
  find_program(ATTEND_NVIDIA_SMI nvidia-smi)
  mark_as_advanced(ATTEND_NVIDIA_SMI)
  if(ATTEND_NVIDIA_SMI)
    execute_process(
      COMMAND "${ATTEND_NVIDIA_SMI}" --query-gpu=compute_cap --format=csv,noheader
      OUTPUT_VARIABLE attend_capabilities
      RESULT_VARIABLE attend_smi_failed
      ERROR_QUIET)
    if(attend_smi_failed)
      set(attend_capabilities)
    endif()
    string(REGEX MATCHALL "[0-9]+\\.[0-9]+" attend_capabilities "${attend_capabilities}")
    foreach(capability IN LISTS attend_capabilities)
      string(REPLACE "." "" capability "${capability}")
      if(capability GREATER_EQUAL 80)
        list(APPEND CMAKE_CUDA_ARCHITECTURES ${capability})
      endif()
    endforeach()
    list(REMOVE_DUPLICATES CMAKE_CUDA_ARCHITECTURES)
  endif()
endif()
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(CMAKE_CUDA_COMPILER nvcc PATHS /usr/local/cuda/bin ENV CUDA_PATH PATH_SUFFIXES bin)
endif()
enable_language(CUDA)
find_package(CUDAToolkit 12 REQUIRED GLOBAL)
message(STATUS "attend: CUDA ${CUDAToolkit_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
